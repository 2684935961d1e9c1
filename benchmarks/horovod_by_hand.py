"""ResNet-20 under Horovod as its documentation has it, to be run by horovodrun: prints the images/s of all ranks.

horovodrun -np 2 --gloo python benchmarks/horovod_by_hand.py BATCH STEPS
"""

from __future__ import annotations

import os
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import horovod.tensorflow as hvd
import tensorflow as tf

from pytest_tfperf.training.models.resnet import resnet20


def main(batch_size: int, steps: int) -> None:
    hvd.init()
    threads = max(1, (os.cpu_count() or 1) // hvd.local_size())  # as ours has it
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.keras.utils.set_random_seed(hvd.rank())
    model = resnet20()
    images = tf.random.uniform((batch_size, *model.input_shape[1:]), -1, 1)
    labels = tf.random.uniform((batch_size,), 0, model.output_shape[-1], tf.int64)
    variables = [variable.value for variable in model.trainable_variables]
    hvd.broadcast_variables([variable.value for variable in model.variables], root_rank=0)

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            loss += 4e-5 * tf.add_n([tf.nn.l2_loss(variable) for variable in variables])
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    for _ in range(10):
        step()
    started = time.perf_counter()
    for _ in range(steps):
        loss = step()
    float(loss)
    seconds = time.perf_counter() - started
    if hvd.rank() == 0:
        print(f"images/s: {batch_size * hvd.size() * steps / seconds:.1f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
