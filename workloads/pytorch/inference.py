#!/usr/bin/python3
"""Inference with a network of torchvision, or a training loop, again and again.

    inference.py MODEL [--batch N] [--pixels N] [--threads N] [--iterations N] [--train] [--times FILE]
    inference.py --list

Weights and inputs are random, of a fixed seed. Standard output has a number that depends on the
options alone with one thread; FILE gets the seconds of each iteration, as a JSON list. Needs Debian's
python3-torch and python3-torchvision.
"""

import argparse
import json
import sys
import time

import torch
import torchvision
from torch import nn


def dcgan():
    """The generator of DCGAN (Radford, Metz, Chintala 2015) for images of 64 x 64."""
    layers, channels = [], [100, 512, 256, 128, 64]
    for i, (before, after) in enumerate(zip(channels, channels[1:])):
        layers += [nn.ConvTranspose2d(before, after, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False),
                   nn.BatchNorm2d(after), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())


def of(name, **options):
    return lambda: getattr(torchvision.models, name)(weights=None, **options)


def segmentation(name):
    return lambda: getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)


MODELS = {
    "dcgan": dcgan,
    "deeplabv3": segmentation("deeplabv3_resnet50"),
    "efficientnet": of("efficientnet_b0"),
    "fcn": segmentation("fcn_resnet50"),
    "googlenet": of("googlenet", init_weights=False),
    "inception": of("inception_v3", init_weights=False),
    "mnasnet": of("mnasnet1_0"),
    "mobilenet": of("mobilenet_v2"),
    "regnet": of("regnet_y_400mf"),
    "resnext": of("resnext50_32x4d"),
    "squeezenet": of("squeezenet1_0"),
    "vgg16": of("vgg16"),
    "wide_resnet": of("wide_resnet50_2"),
}


def total(output):
    """One number for all tensors of an output, which may be a dictionary or a tuple."""
    if isinstance(output, torch.Tensor):
        return float(output.double().abs().sum())
    parts = output.values() if isinstance(output, dict) else output
    return sum(total(it) for it in parts if it is not None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", choices=MODELS)
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--pixels", type=int, default=128, help="width and height of an image")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--train", action="store_true", help="a step of gradient descent each time")
    parser.add_argument("--times", help="where the seconds of each iteration go")
    options = parser.parse_args()
    if options.list:
        print("\n".join(MODELS))
        return
    if options.model is None:
        parser.error("expected a model; --list has them")
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = MODELS[options.model]()
    shape = (100, 1, 1) if options.model == "dcgan" else (3, options.pixels, options.pixels)
    images = torch.randn(options.batch, *shape)
    model.train(options.train)
    descent = torch.optim.SGD(model.parameters(), lr=1e-3) if options.train else None

    def step():
        if descent is None:
            with torch.no_grad():
                return total(model(images))
        descent.zero_grad()
        output = model(images)
        if not isinstance(output, torch.Tensor):
            output = output["out"] if isinstance(output, dict) else output[0]
        loss = output.square().mean()
        loss.backward()
        descent.step()
        return float(loss)

    seconds, result = [0.0] * options.iterations, 0.0
    for i in range(options.iterations):
        begin = time.perf_counter()
        result = step()
        seconds[i] = time.perf_counter() - begin
    print(f"{options.model} {result:.6g}")
    if options.times:
        with open(options.times, "w", encoding="utf-8") as file:
            json.dump(seconds, file)


if __name__ == "__main__":
    sys.exit(main())
