"""The gradient of a batch by `kernel/`, compiled for this machine.

Where there is no g++, or the processor has no AMX, PyTorch does it; with AMX that is five times slower.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL = os.path.join(HERE, "kernel")
FLAGS = "-std=c++20 -O3 -march=native -fno-math-errno -Wno-uninitialized -shared -fPIC".split()
PART_OF_LAYER = "attn_norm ffn_norm q k q_bias k_bias v o gate up down".split()


class CLayer(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in PART_OF_LAYER]


class CShape(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32) for name in ("width", "layers", "heads", "kv_heads", "hidden")
    ] + [("eps", ctypes.c_float)]


class CBatch(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("trees", "tokens", "wanted", "classes")] + [
        (name, ctypes.c_void_p)
        for name in (
            "tree_starts",
            "prefixes",
            "bases",
            "flags",
            "positions",
            "firsts",
            "at",
            "labels",
            "weights",
            "class_bases",
            "class_flags",
            "class_bias",
        )
    ]


class COuter(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("base", "flags", "norm")]


def processor_suits():
    try:
        with open("/proc/cpuinfo") as info:
            flags = info.read().split()
    except FileNotFoundError:
        return False
    return "amx_bf16" in flags and "avx512_bf16" in flags


@functools.cache
def library():
    """The compiled library, or None."""
    if not processor_suits() or not shutil.which("g++"):
        return None
    made_of = (
        subprocess.run(["g++", "-march=native", "-Q", "--help=target"], capture_output=True).stdout
        + " ".join(FLAGS).encode()
    )
    for name in sorted(os.listdir(KERNEL)):
        with open(os.path.join(KERNEL, name), "rb") as source:
            made_of += source.read()
    path = os.path.join(HERE, "runs", "native-%s.so" % hashlib.sha256(made_of).hexdigest()[:16])
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = "%s.%d" % (path, os.getpid())
        if subprocess.run(["g++", *FLAGS, os.path.join(KERNEL, "net.cc"), "-o", part]).returncode:
            return None  # the compiler has said why
        os.replace(part, path)
    found = ctypes.CDLL(path)
    found.native_net.restype = ctypes.c_void_p
    return found


def outer_of(named):
    return COuter(*(named[name].data_ptr() for name, _ in COuter._fields_))


def layers_of(named, count):
    """Pointers to the parts of each layer; `named` has them as `model.Model` names them, float32."""
    return (CLayer * count)(
        *(
            CLayer(*(named["layers.%d.%s" % (i, part)].data_ptr() for part in PART_OF_LAYER))
            for i in range(count)
        )
    )


class Native:
    """The gradient of one model for one thread. It keeps pointers: parameters and sums must stay where they are."""

    def __init__(self, found, model, sums):
        s = model.shape
        self.library = found
        self.frequency = model.frequency.float().contiguous()
        self.net = ctypes.c_void_p(
            found.native_net(
                ctypes.byref(CShape(s.width, s.layers, s.heads, s.kv_heads, s.hidden, s.eps)),
                ctypes.c_void_p(self.frequency.data_ptr()),
            )
        )
        named = dict(model.named_parameters())
        self.weights, self.sums = (
            (layers_of(of, s.layers), outer_of(of)) for of in (named, dict(zip(named, sums)))
        )

    def pack(self):
        """Takes the weights as they are now: once after each step."""
        self.library.native_pack(self.net, self.weights[0])

    def add(self, batch):
        """Adds the slopes of a batch, whose trees have at most 2,048 tokens; (summed loss, how many targets are right)."""
        given = CBatch(
            len(batch.prefixes),
            len(batch.bases),
            len(batch.at),
            len(batch.class_bases),
            *(getattr(batch, name).data_ptr() for name, _ in CBatch._fields_[4:]),
        )
        loss = ctypes.c_double()
        right = self.library.native_gradient(
            self.net,
            ctypes.byref(given),
            self.weights[0],
            ctypes.byref(self.weights[1]),
            self.sums[0],
            ctypes.byref(self.sums[1]),
            ctypes.byref(loss),
        )
        if right < 0:
            raise ValueError("a tree is too long for kernel/")
        return loss.value, right


class Plain:
    """The same by autograd."""

    def __init__(self, model, sums):
        self.model, self.parameters, self.sums = model, list(model.parameters()), sums

    def pack(self):
        pass

    def add(self, batch):
        loss, right = self.model.loss(batch)
        torch._foreach_add_(self.sums, torch.autograd.grad(loss, self.parameters))
        return loss.item(), right


def gradient_of(model, sums):
    """What adds slopes to `sums`, a tensor for each of `model.parameters()`."""
    found = library()
    made = Native(found, model, sums) if found else None
    return made if made and made.net else Plain(model, sums)
