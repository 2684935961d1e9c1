"""Small data sets of real photographs and of token ids.

For whoever wants to measure an input pipeline without ImageNet at hand.
`tfperf make-imagenet` and `tfperf make-tokens` write them; what writes records runs in training/, beside TensorFlow.
"""
