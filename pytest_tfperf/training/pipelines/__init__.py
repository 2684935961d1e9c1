"""Input pipelines, a file for each family. To add a pipeline, add a file, or a function to its family's file.

Each public function is a pipeline's name, with dashes for underscores; nothing else lists it. It takes an `InputSpec`
and returns one of
- a `tf.data.Dataset` of endless batches, each for one replica: images, float32 [batch, height, width, channels], and
  labels, int32 or int64 [batch];
- one such batch, which is copied once to every replica's device and used again in each step;
- either of them as `PipelineOnly(...)`: batches are fetched, and nothing is trained on them.
"""
