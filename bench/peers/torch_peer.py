"""The workloads of `caravan bench` in PyTorch: eager, with torch.compile, or with torch.compile and graphs of CUDA."""
import contextlib

import torch
import torch.nn.functional as F
from torch import nn

import record as records
import worker


class Params:
    """Initial values in PyTorch's layouts. Ours have the axes of the output first, as PyTorch's linear layers do."""

    def __init__(self, record, cuda):
        self.record, self.cuda = record, cuda

    def tensor(self, name):
        dtype, sizes, content = self.record.tensors[name]
        types = {"F32": torch.float32, "I32": torch.int32}
        return torch.frombuffer(content, dtype=types[dtype]).reshape(sizes)

    def has(self, name):
        return "param." + name in self.record.tensors

    def __getitem__(self, name):
        return self.tensor("param." + name)


def filled(layer, **values):
    with torch.no_grad():
        for name, value in values.items():
            getattr(layer, name).copy_(value)
    return layer


def linear(params, name, inputs):
    weight = params[name + ".weight"].reshape(-1, inputs)
    layer = nn.Linear(inputs, weight.shape[0], bias=params.has(name + ".bias"))
    filled(layer, weight=weight)
    return filled(layer, bias=params[name + ".bias"].flatten()) if layer.bias is not None else layer


def embedding(params, name):
    table = params[name + ".weight"]
    return filled(nn.Embedding(*table.shape), weight=table)


def norm(kind, params, name):
    weight = params[name + ".weight"]
    return filled(kind(weight.shape[0]), weight=weight, bias=params[name + ".bias"])


def conv(params, name):
    weight = params[name + ".weight"].permute(0, 3, 1, 2)  # ours: output, height, width, input
    return filled(nn.Conv2d(weight.shape[1], weight.shape[0], 3), weight=weight, bias=params[name + ".bias"])


def mlp(params, inputs, activation):
    layers, i = [], 0
    while params.has(f"mlp.{i}.weight"):
        layers += [linear(params, f"mlp.{i}", inputs), activation()]
        inputs, i = layers[-2].out_features, i + 1
    return nn.Sequential(*layers[:-1])


class Channels(nn.Module):
    """Batch norm over the last axis."""

    def __init__(self, params, name):
        super().__init__()
        self.norm = norm(nn.BatchNorm1d, params, name)

    def forward(self, x):
        return self.norm(x) if x.dim() == 2 else self.norm(x.transpose(1, 2)).transpose(1, 2)


class Pairs(nn.Module):
    """Two neighbours become one."""

    def forward(self, x):
        b, t, c = x.shape
        return x.reshape(b, t // 2, 2 * c).squeeze(1)


def names_mlp(params):
    letters = embedding(params, "letters")
    hidden = linear(params, "hidden", 3 * letters.embedding_dim)
    layers = [letters, nn.Flatten(), hidden]
    if params.has("norm.weight"):
        layers.append(Channels(params, "norm"))
    return nn.Sequential(*layers, nn.Tanh(), linear(params, "next", hidden.out_features))


def names_wavenet(params):
    layers = [embedding(params, "letters")]
    width = layers[0].embedding_dim
    for name in ("level1", "level2", "level3"):
        fuse = linear(params, name, 2 * width)
        layers += [Pairs(), fuse, Channels(params, name + ".norm"), nn.Tanh()]
        width = fuse.out_features
    return nn.Sequential(*layers, linear(params, "next", width))


def lenet(params):
    conv1, conv2 = conv(params, "conv1"), conv(params, "conv2")
    channels = conv2.out_channels
    dense1 = params["dense1.weight"].reshape(-1, 5, 5, channels).permute(0, 3, 1, 2).flatten(1)
    hidden = filled(nn.Linear(dense1.shape[1], dense1.shape[0]), weight=dense1, bias=params["dense1.bias"])
    return nn.Sequential(conv1, nn.ReLU(), nn.MaxPool2d(2), conv2, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), hidden,
                         nn.ReLU(), linear(params, "dense2", hidden.out_features))


def attend(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[-2]
    seen = torch.ones(t, t, dtype=torch.bool, device=q.device).tril()
    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, params, name, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = (norm(nn.LayerNorm, params, f"{name}.{ln}") for ln in ("ln1", "ln2"))
        self.qkv, self.proj = (linear(params, f"{name}.attn.{part}", width) for part in ("qkv", "proj"))
        self.up, self.down = linear(params, name + ".up", width), linear(params, name + ".down", 4 * width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.qkv(self.ln1(x)).split(c, dim=2))
        x = x + self.proj(attend(q, k, v).transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, params, heads):
        super().__init__()
        self.tok, self.pos = embedding(params, "tok"), embedding(params, "pos")
        width, count = self.tok.embedding_dim, 0
        while params.has(f"blocks.{count}.up.weight"):
            count += 1
        self.blocks = nn.Sequential(*(Block(params, f"blocks.{i}", width, heads) for i in range(count)))
        self.ln = norm(nn.LayerNorm, params, "ln")
        self.head = linear(params, "head", width) if params.has("head.weight") else None  # the table of tokens

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        x = self.ln(self.blocks(x))
        return self.head(x) if self.head else F.linear(x, self.tok.weight)


def cross_entropy(output, y):
    return F.cross_entropy(output.flatten(0, -2), y.flatten())


def hinge(output, y):
    return F.relu(1 - y * output).mean()


# The model and the loss of each workload.
WORKLOADS = {
    "camelax-mnist": (lambda p: mlp(p, 784, nn.Tanh), cross_entropy),
    "camelax-mul": (lambda p: mlp(p, 2, nn.ReLU), F.mse_loss),
    "moons": (lambda p: mlp(p, 2, nn.ReLU), hinge),
    "names-mlp-b32": (names_mlp, cross_entropy),
    "names-mlp-b1024": (names_mlp, cross_entropy),
    "names-mlp-bn": (names_mlp, cross_entropy),
    "names-wavenet": (names_wavenet, cross_entropy),
    "names-transformer": (lambda p: Gpt(p, 4), cross_entropy),
    "mnist-mlp": (lambda p: mlp(p, 784, nn.ReLU), cross_entropy),
    "lenet": (lenet, cross_entropy),
    "gpt-char-b4": (lambda p: Gpt(p, 6), cross_entropy),
    "gpt-char-b64": (lambda p: Gpt(p, 6), cross_entropy),
    "gpt2-124m": (lambda p: Gpt(p, 12), cross_entropy),
}


COMPILED = {"compile": {}, "graph": {"mode": "reduce-overhead"}}  # by mode: options of torch.compile


def optimizer_of(model, about):
    options = {key: value for key, value in about.items() if key != "name"}
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[about["name"]]
    try:
        return kind(model.parameters(), fused=True, **options)
    except (TypeError, RuntimeError):  # this version has none for the CPU
        return kind(model.parameters(), **options)


class Training:
    def __init__(self, params, mode, layout=torch.contiguous_format):
        make, loss = WORKLOADS[params.record.name]
        x, y = params.tensor("data.x"), params.tensor("data.y")
        x = x.long() if x.dtype == torch.int32 else x
        y = y.long() if y.dtype == torch.int32 else y
        self.device = torch.device("cuda" if params.cuda else "cpu")
        self.xs, self.ys = list(x.to(self.device)), list(y.to(self.device))
        self.model = make(params).to(self.device)
        if params.record.name == "lenet":
            self.model = self.model.to(memory_format=layout)
            self.xs = [batch.permute(0, 3, 1, 2).contiguous(memory_format=layout) for batch in self.xs]
        self.optimizer = optimizer_of(self.model, params.record.optimizer)
        narrow = getattr(torch, {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}[params.record.precision])

        def loss_of(x, y):
            around = contextlib.nullcontext()
            if narrow != torch.float32:
                around = torch.autocast(self.device.type, dtype=narrow)
            with around:
                return loss(self.model(x), y)

        self.loss = torch.compile(loss_of, **COMPILED[mode]) if mode in COMPILED else loss_of
        self.graphs = mode == "graph"
        self.at = 0

    def step(self):
        batch = self.at % len(self.xs)
        self.at += 1
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.xs[batch], self.ys[batch])
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, steps):
        for _ in range(steps):
            self.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def product(params, mode):
    device = "cuda" if params.cuda else "cpu"
    a, b, expected = (tensor.to(device) for tensor in (params["a"], params["b"], params.tensor("result")))
    a = a.t() if params.record.name.endswith("-tn") else a
    b = b.t() if params.record.name.endswith("-nt") else b
    multiply = torch.compile(torch.mm, **COMPILED[mode]) if mode in COMPILED else torch.mm

    def run(steps):
        for _ in range(steps):
            multiply(a, b)
        if params.cuda:
            torch.cuda.synchronize()

    return float((multiply(a, b) - expected).abs().max() / expected.abs().max()), run


def training(params, mode):
    def difference_of(one):
        expected = params.record.losses()
        return records.difference([one.step().item() for _ in expected], expected)

    one = Training(params, mode)
    difference = difference_of(one)
    if params.record.name == "lenet":  # with the channels last if that is faster
        other = Training(params, mode, torch.channels_last)
        difference = max(difference, difference_of(other))
        one = min(one, other, key=lambda each: min(worker.timed(each.run, 3) for _ in range(3)))
    return difference, one.run


def make(record, mode, settings):
    if mode in COMPILED and not hasattr(torch, "compile"):
        raise RuntimeError(f"torch {torch.__version__} has no torch.compile")
    memory = None
    if settings["cuda"]:
        if not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} finds no GPU")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = settings["tf32"]
        memory = torch.cuda.max_memory_allocated
    else:
        torch.set_num_threads(settings["threads"])
    params = Params(record, settings["cuda"])
    if record.is_product():
        with torch.no_grad():
            return (torch.__version__, *product(params, mode), memory)
    return (torch.__version__, *training(params, mode), memory)


if __name__ == "__main__":
    worker.main(make)
