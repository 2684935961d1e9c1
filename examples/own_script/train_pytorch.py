"""A loop of PyTorch, which prints one JSON object in a line."""

import argparse
import json
import time

import torch

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=1_000_000)
given = arguments.parse_args()

BATCH, EVERY = 64, 200
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(BATCH, 256, device=device), torch.randint(10, (BATCH,), device=device)

began = time.perf_counter()
for step in range(1, given.steps + 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if step % EVERY == 0:
        value = loss.item()  # waits for the device
        now = time.perf_counter()
        print(json.dumps({"step": step, "loss": value, "images_per_sec": EVERY * BATCH / (now - began)}))
        began = now
