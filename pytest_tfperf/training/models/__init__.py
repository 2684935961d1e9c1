"""Models, a file for each family. To add a model, add a file, or a function to its family's file.

Each public function is a model's name, with dashes for underscores; nothing else lists it. It takes no arguments and
returns a `keras.Model`: images, float32 [batch, height, width, channels], to logits, [batch, classes].
"""
