"""A loop of PyTorch, whose optimizer tells its steps."""

import argparse

import torch

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=1_000_000)
given = arguments.parse_args()

BATCH = 64
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(BATCH, 256, device=device), torch.randint(10, (BATCH,), device=device)

for step in range(1, given.steps + 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if step % 1000 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
