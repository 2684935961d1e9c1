"""One file for each input pipeline; each public function is a pipeline's name.

A pipeline is a function of one `InputSpec`. It returns either a `tf.data.Dataset` of endless batches, each for one
replica (images, float32 [batch, height, width, channels]; labels, int32 or int64 [batch]), or one such pair, which is
placed once on every replica's device and used again in each step; or either as `Alone(...)`: its batches are fetched,
and nothing is trained on them.
"""
