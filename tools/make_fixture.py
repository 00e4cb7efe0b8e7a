#!/usr/bin/env python3
"""Makes parity fixtures with PyTorch: random models of the vocabulary that `caravan parity` reads, trained a few steps.

    python3 tools/make_fixture.py fixtures --seed 1 --count 200
    caravan parity fixtures/*.safetensors --quiet

A fixture is one safetensors file. Its metadata says the model, loss, optimiser and steps in words; its tensors are x, y
(one batch per step), param.NAME and buffer.NAME before the first step, grad.NAME of the first, the loss of every step,
final.NAME and final_buffer.NAME after the last, and eval_output, the model in evaluation mode on x[0] after the last.
"""
import argparse
import json
import math
import os
import random
import struct

# How far a run in single precision may be from the same run in double, as a share of the limits of `caravan parity`. A run
# that is further away measures rounding (a ReLU at its kink, Adam on a gradient of nothing), so another one is drawn.
OWN_SHARE = 0.1
LIMITS = {"losses": 1e-4, "grad.": 1e-4, "final.": 2e-3, "final_buffer.": 2e-3, "eval_output": 2e-3}


class Draw:
    """A random description: a model as words, its loss and optimiser, and the sizes of its data."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.layers, self.vocab = [], 0
        kind = self.r.randrange(10)
        if kind < 2:
            self.gpt()
        elif kind < 6:
            self.image()
        elif kind < 8:
            self.ids()
        else:
            self.points()
        if self.layers:
            self.model = {"type": "sequential", "layers": self.layers}
        self.optimizer = self.draw_optimizer()
        self.steps = self.r.randint(3, 10)

    def one_in(self, n):
        return self.r.randrange(n) == 0

    def pair(self, a, b):
        """A number where both are equal, a pair otherwise and sometimes anyway."""
        return a if a == b and not self.one_in(3) else [a, b]

    # --- layers: each adds to `out` and returns the size of an example behind it ---
    def activation(self, out):
        out.append({"type": self.r.choice(["relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu"])})

    def linear(self, out, size, to, bias):
        layer = {"type": "linear", "in": size[-1], "out": to}
        if not bias or self.one_in(2):
            layer["bias"] = bias
        out.append(layer)
        return size[:-1] + [to]

    def conv(self, out, size, same, bias):
        channels = size[0]
        groups = self.r.choice([1, 1, channels] + ([2] if channels % 2 == 0 else []))
        to = channels if same else groups * self.r.randint(1, max(1, 8 // groups))
        kernel, stride, padding, dilation, sizes = [], [], [], [], []
        for n in size[1:]:
            if same:
                k, d, s = self.r.choice([1, 3, 3, 5]), self.r.randint(1, 2), 1
                p = d * (k - 1) // 2
            else:
                p = self.r.randrange(3)
                k = self.r.randint(1, min(5, n + 2 * p))
                d = self.r.randint(1, 2) if 2 * (k - 1) < n else 1
                s = self.r.randint(1, 3)
            kernel.append(k), stride.append(s), padding.append(p), dilation.append(d)
            sizes.append((n + 2 * p - d * (k - 1) - 1) // s + 1)
        layer = {"type": "conv2d", "in": channels, "out": to, "kernel": self.pair(*kernel)}
        for name, value, default in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
            if value != [default, default] or self.one_in(4):
                layer[name] = self.pair(*value)
        if groups != 1 or self.one_in(4):
            layer["groups"] = groups
        if not bias:
            layer["bias"] = False
        out.append(layer)
        return [to] + sizes

    def pool(self, out, size):
        kernel = [self.r.randint(1, min(3, n)) for n in size[1:]]
        layer = {"type": self.r.choice(["max_pool2d", "avg_pool2d"]), "kernel": self.pair(*kernel)}
        stride = kernel
        if self.one_in(2):
            stride = [self.r.randint(1, 3) for _ in kernel]
            layer["stride"] = self.pair(*stride)
        out.append(layer)
        return [size[0]] + [(n - k) // s + 1 for n, k, s in zip(size[1:], kernel, stride)]

    def norm(self, out, size):
        if len(size) == 3 and self.one_in(2):
            out.append({"type": "batch_norm2d", "features": size[0]})
        elif self.one_in(2):
            out.append({"type": "batch_norm", "features": size[-1]})
        elif len(size) > 1 and self.one_in(2) and math.prod(size) >= 4:  # a norm of fewer is all rounding
            out.append({"type": "layer_norm", "features": size})
        elif size[-1] >= 4:
            out.append({"type": "layer_norm", "features": size[-1]})

    def mapped(self, out, size, same):
        normed = self.one_in(3)
        bias = not normed and not self.one_in(4)  # before a batch norm the gradient of a bias is rounding alone
        if len(size) == 3 and not self.one_in(6):
            size = self.conv(out, size, same, bias)
        else:
            size = self.linear(out, size, size[-1] if same else self.r.randint(4, 16), bias)
        if normed:
            self.norm(out, size)
        if not self.one_in(4):
            self.activation(out)
        return size

    def residual(self, out, size):
        body = []
        self.mapped(body, size, True)
        if self.one_in(2):
            self.mapped(body, size, True)
        if self.one_in(6):
            self.residual(body, size)
        out.append({"type": "residual", "layers": body})

    def body(self, size, count):
        for _ in range(count):
            if self.one_in(4):
                self.residual(self.layers, size)
            elif len(size) == 3 and self.one_in(3):
                size = self.pool(self.layers, size)
            else:
                size = self.mapped(self.layers, size, False)
        return size

    def flatten(self, size):
        self.layers.append({"type": "flatten"})
        return [math.prod(size)]

    # --- models ---
    def head(self, size):
        self.targets = self.linear(self.layers, size, self.r.randint(2, 10), not self.one_in(3))
        self.loss = self.r.choice(["cross_entropy", "cross_entropy", "mse", "hinge"])

    def image(self):
        self.batch = self.r.randint(4, 8)
        self.example = [self.r.randint(1, 4), self.r.randint(4, 14), self.r.randint(4, 14)]
        size = self.flatten(self.body(self.example, self.r.randint(1, 4)))
        self.head(self.body(size, 1) if self.one_in(3) else size)

    def points(self):
        self.batch, self.example = self.r.randint(5, 16), [self.r.randint(4, 20)]
        self.head(self.body(self.example, self.r.randint(1, 5)))

    def ids(self):
        self.vocab, self.batch = self.r.randint(5, 40), self.r.randint(5, 16)
        dim = self.r.randint(4, 12)
        self.layers.append({"type": "embedding", "num": self.vocab, "dim": dim})
        self.example = [] if self.one_in(6) else [self.r.choice([2, 3, 4, 8])]
        size = self.example + [dim]
        while len(size) == 2 and not self.one_in(3):
            divisors = [n for n in range(2, size[0] + 1) if size[0] % n == 0]
            if not divisors:
                break
            n = self.r.choice(divisors)
            self.layers.append({"type": "flatten_consecutive", "n": n})
            size = [n * size[1]] if size[0] == n else [size[0] // n, n * size[1]]
            size = self.body(size, 1)
        if len(size) == 2 and self.one_in(2):
            size = self.flatten(size)
        self.head(self.body(size, self.r.randrange(3)))

    def gpt(self):
        heads = self.r.choice([1, 2, 3, 4])
        ctx = self.r.randint(3, 16)
        self.vocab, self.batch, self.example = self.r.randint(5, 40), self.r.randint(2, 6), [self.r.randint(2, ctx)]
        self.model = {"type": "gpt", "vocab": self.vocab, "ctx": ctx, "dim": heads * self.r.randint(6 // heads, 8), "heads": heads,
                      "layers": self.r.randint(1, 3), "tied": self.one_in(2)}
        self.head_bias = self.one_in(2)
        self.loss, self.targets = "cross_entropy", self.example + [self.vocab]

    def draw_optimizer(self):
        kind = self.r.randrange(6)

        def real(low, high):
            return round(self.r.uniform(low, high), 6)

        if kind < 3:
            out = {"name": "sgd", "lr": real(0.005, 0.1)}
            if kind > 0:
                out["momentum"] = real(0.5, 0.95)
            if kind > 1:
                out["nesterov"] = True
            if self.one_in(2):
                out["weight_decay"] = real(0, 0.1)
            return out
        out = {"name": "adam" if kind < 5 else "adamw", "lr": real(1e-4, 1e-3)}
        if self.one_in(2):
            out["betas"] = [real(0.8, 0.95), real(0.9, 0.999)]
        if self.one_in(2):
            out["eps"] = self.r.choice([1e-8, 1e-6])
        if self.one_in(2):
            out["weight_decay"] = real(0, 0.1)
        return out


def modules(torch):
    """The vocabulary as PyTorch's modules: a function from a description to a model."""
    nn, functional = torch.nn, torch.nn.functional

    class LastAxisBatchNorm(nn.BatchNorm1d):  # PyTorch has the channels second
        def forward(self, x):
            return super().forward(x.reshape(-1, x.shape[-1])).reshape(x.shape)

    class FlattenConsecutive(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, x):
            b, t, c = x.shape
            x = x.reshape(b, t // self.n, self.n * c)
            return x.squeeze(1) if x.shape[1] == 1 else x

    class Residual(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body = body

        def forward(self, x):
            return x + self.body(x)

    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(dim, 3 * dim, bias=False)
            self.proj = nn.Linear(dim, dim)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for z in self.qkv(x).split(c, dim=2))
            scores = q @ k.transpose(2, 3) / math.sqrt(c // self.heads)
            future = torch.ones(t, t, dtype=torch.bool).triu(1)
            weights = scores.masked_fill(future, -math.inf).softmax(3)
            return self.proj((weights @ v).transpose(1, 2).reshape(b, t, c))

    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.ln1, self.attn = nn.LayerNorm(dim), Attention(dim, heads)
            self.ln2, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def forward(self, x):
            x = x + self.attn(self.ln1(x))
            return x + self.down(functional.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self, d, head_bias):
            super().__init__()
            self.tok, self.pos = nn.Embedding(d["vocab"], d["dim"]), nn.Embedding(d["ctx"], d["dim"])
            self.blocks = nn.ModuleList([Block(d["dim"], d["heads"]) for _ in range(d["layers"])])
            self.ln = nn.LayerNorm(d["dim"])
            self.head = None if d["tied"] else nn.Linear(d["dim"], d["vocab"], bias=head_bias)

        def forward(self, ids):
            x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            x = self.ln(x)
            return functional.linear(x, self.tok.weight) if self.head is None else self.head(x)

    def both(value):
        return tuple(value) if isinstance(value, list) else value

    def layer(d):
        kind = d["type"]
        if kind == "linear":
            return nn.Linear(d["in"], d["out"], bias=d.get("bias", True))
        if kind == "conv2d":
            return nn.Conv2d(d["in"], d["out"], both(d["kernel"]), stride=both(d.get("stride", 1)),
                             padding=both(d.get("padding", 0)), dilation=both(d.get("dilation", 1)),
                             groups=d.get("groups", 1), bias=d.get("bias", True))
        if kind in ("max_pool2d", "avg_pool2d"):
            pool = nn.MaxPool2d if kind == "max_pool2d" else nn.AvgPool2d
            return pool(both(d["kernel"]), stride=both(d.get("stride")))
        simple = {"flatten": nn.Flatten, "relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU,
                  "silu": nn.SiLU}
        if kind in simple:
            return simple[kind]()
        if kind == "gelu_tanh":
            return nn.GELU(approximate="tanh")
        if kind == "flatten_consecutive":
            return FlattenConsecutive(d["n"])
        if kind == "batch_norm":
            return LastAxisBatchNorm(d["features"])
        if kind == "batch_norm2d":
            return nn.BatchNorm2d(d["features"])
        if kind == "layer_norm":
            return nn.LayerNorm(d["features"])
        if kind == "embedding":
            return nn.Embedding(d["num"], d["dim"])
        if kind == "residual":
            return Residual(nn.Sequential(*[layer(inner) for inner in d["layers"]]))
        raise ValueError(f"there is no layer {kind}")

    def model(draw):
        if draw.model["type"] == "gpt":
            return Gpt(draw.model, draw.head_bias)
        return nn.Sequential(*[layer(d) for d in draw.model["layers"]])

    return model


def loss_of(torch, kind, output, y):
    if kind == "mse":
        return ((output - y) ** 2).mean()
    if kind == "hinge":
        return (1 - y * output).relu().sum() / len(y)
    return torch.nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1))


def optimizer_of(torch, words, parameters):
    options = {name: value for name, value in words.items() if name != "name"}
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kinds[words["name"]](parameters, **options)


def buffers_of(model):
    return [(name, b) for name, b in model.named_buffers() if not name.endswith("num_batches_tracked")]


def train(torch, draw, model, x, y):
    """Everything that a fixture records, by name."""
    out = {}

    def keep(prefix, named):
        for name, tensor in named:
            out[prefix + name] = tensor.detach().clone()

    model.train()
    keep("param.", model.named_parameters())
    keep("buffer.", buffers_of(model))
    optimizer = optimizer_of(torch, draw.optimizer, model.parameters())
    losses = []
    for step in range(draw.steps):
        optimizer.zero_grad()
        loss = loss_of(torch, draw.loss, model(x[step]), y[step])
        loss.backward()
        if step == 0:
            keep("grad.", ((name, p.grad) for name, p in model.named_parameters()))
        losses.append(loss.detach())
        optimizer.step()
    out["losses"] = torch.stack(losses)
    keep("final.", model.named_parameters())
    keep("final_buffer.", buffers_of(model))
    model.eval()
    with torch.no_grad():
        out["eval_output"] = model(x[0])
    return out


def shaken(torch, model):
    """Norms start at 1 and 0, where mistakes would hide; so they start elsewhere."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (torch.nn.LayerNorm, torch.nn.modules.batchnorm._BatchNorm)):
                module.weight.add_(torch.empty_like(module.weight).uniform_(-0.3, 0.3))
                module.bias.add_(torch.empty_like(module.bias).uniform_(-0.3, 0.3))
        for name, buffer in buffers_of(model):
            buffer.uniform_(0.5, 2) if name.endswith("running_var") else buffer.uniform_(-0.5, 0.5)
    return model


def share_of_limits(single, double):
    worst = 0.0
    for name, a in single.items():
        limit = next((limit for prefix, limit in LIMITS.items() if name.startswith(prefix)), None)
        if limit is None:
            continue
        a, b = a.double(), double[name].double()
        scale = b.abs().max().item()
        difference = (a - b).abs().max().item() / (scale if scale >= 1e-6 else 1)
        if not math.isfinite(difference):
            return math.inf
        worst = max(worst, difference / limit)
    return worst


def attempt(torch, seed):
    """A fixture's description and tensors, or nothing where single precision does not repeat the run."""
    draw = Draw(seed)
    torch.manual_seed(seed)
    model = shaken(torch, modules(torch)(draw))
    shape = [draw.steps, draw.batch]
    x = torch.randint(draw.vocab, shape + draw.example) if draw.vocab else torch.randn(shape + draw.example)
    if draw.loss == "cross_entropy":
        y = torch.randint(draw.targets[-1], shape + draw.targets[:-1])
    else:
        y = torch.randn(shape + draw.targets)
        if draw.loss == "hinge":
            y = torch.where(y > 0, 1.0, -1.0)

    wide = modules(torch)(draw).double()
    wide.load_state_dict(model.state_dict())
    tensors = train(torch, draw, model, x, y)
    exact = train(torch, draw, wide, x if draw.vocab else x.double(), y if draw.loss == "cross_entropy" else y.double())
    if share_of_limits(tensors, exact) > OWN_SHARE:
        return None
    return draw, {**tensors, "x": x, "y": y}


def write(torch, path, metadata, tensors):
    """safetensors: the length of the header, the header, the elements; under its name only when complete."""
    types = {torch.float32: "F32", torch.int64: "I64"}
    header, content = {"__metadata__": metadata}, b""
    for name in sorted(tensors, key=lambda name: (types[tensors[name].dtype] == "F32", name)):  # the widest first
        tensor = tensors[name].detach().contiguous()
        elements = bytes(tensor.reshape(-1).view(torch.uint8).tolist())
        header[name] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(content), len(content) + len(elements)]}
        content += elements
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + content)
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the files go; made if it is not there")
    parser.add_argument("--seed", type=int, default=1, help="of the first fixture [1]")
    parser.add_argument("--count", type=int, default=1, help="how many: seeds SEED, SEED + 1, ... [1]")
    arguments = parser.parse_args()
    import torch  # here, so that --help works without it

    torch.set_num_threads(1)
    os.makedirs(arguments.folder, exist_ok=True)
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        made, tries = None, 0
        while made is None:  # a million apart, so that seeds never share a draw
            made = attempt(torch, seed + 1_000_000 * tries)
            tries += 1
        draw, tensors = made
        name = f"random_{seed:04d}"
        metadata = {"fixture": "1", "name": name, "model": json.dumps(draw.model), "loss": draw.loss,
                    "optimizer": json.dumps(draw.optimizer), "steps": str(draw.steps), "source": f"PyTorch {torch.__version__}"}
        write(torch, os.path.join(arguments.folder, name + ".safetensors"), metadata, tensors)
        print(f"{name}: {draw.model['type']}, {draw.loss}, {draw.optimizer['name']}, {draw.steps} steps, draw {tries}", flush=True)


if __name__ == "__main__":
    main()
