"""One file for each family; each public function is a model's name.

A model is a function without arguments that returns a `keras.Model`: images, float32 [batch, height, width, channels],
to logits, [batch, classes].
"""
