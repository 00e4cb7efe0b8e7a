"""The workloads of `caravan bench` in JAX: many steps in one call of a jitted loop, which is how JAX is fastest."""
import jax
import jax.numpy as jnp
import numpy as np

import record as records
import worker


PRECISION = jnp.float32  # of the factors of products
TABLES = ("letters.weight", "tok.weight", "pos.weight")


def array(record, name):
    dtype, sizes, content = record.tensors[name]
    return np.frombuffer(content, dtype={"F32": np.float32, "I32": np.int32}[dtype]).reshape(sizes)


def params_of(record):
    """Weights of linear layers as inputs x outputs, tables as ids x channels, kernels as height, width, input, output."""
    out = {}
    for name in record.params():
        value = array(record, "param." + name)
        if name.startswith("conv") and name.endswith("weight"):
            value = value.transpose(1, 2, 3, 0)
        elif name.endswith("attn.qkv.weight"):  # heads, channels of a head, width
            value = value.reshape(-1, value.shape[-1]).T
        elif name.endswith("weight") and value.ndim > 1 and name not in TABLES and not record.is_product():
            value = value.reshape(value.shape[0], -1).T
        out[name] = jnp.array(value)  # a copy: the loop overwrites its memory
    return out


def narrow(x):
    """The factor of a product, in the precision of products."""
    return x.astype(PRECISION)


def linear(p, name, x):
    y = narrow(x) @ narrow(p[name + ".weight"])
    return narrow(y + p[name + ".bias"].reshape(-1)) if name + ".bias" in p else y


def mlp(p, x, activation):
    i = 0
    while f"mlp.{i}.weight" in p:
        x = linear(p, f"mlp.{i}", activation(x) if i else x)
        i += 1
    return x


def layer_norm(p, name, x):
    x = x.astype(jnp.float32)
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def batch_norm(p, name, x, statistics):
    axes = tuple(range(x.ndim - 1))
    count = x.size // x.shape[-1]
    mean, variance = x.mean(axes), x.var(axes)
    old_mean, old_variance = statistics[name]
    statistics[name] = (0.9 * old_mean + 0.1 * mean, 0.9 * old_variance + 0.1 * variance * count / (count - 1))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def names_mlp(p, ids, statistics):
    x = p["letters.weight"][ids].reshape(ids.shape[0], -1)
    x = linear(p, "hidden", x)
    if "norm.weight" in p:
        x = batch_norm(p, "norm", x, statistics)
    return linear(p, "next", jnp.tanh(x))


def names_wavenet(p, ids, statistics):
    x = p["letters.weight"][ids]
    for name in ("level1", "level2", "level3"):
        b, t, c = x.shape
        x = linear(p, name, x.reshape(b, t // 2, 2 * c))
        x = jnp.tanh(batch_norm(p, name + ".norm", x, statistics))
    return linear(p, "next", x[:, 0])


def convolution(p, name, x):
    y = jax.lax.conv_general_dilated(x, p[name + ".weight"], (1, 1), "VALID",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(y + p[name + ".bias"])


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def lenet(p, x, _):
    x = pool(convolution(p, "conv2", pool(convolution(p, "conv1", x))))
    return linear(p, "dense2", jax.nn.relu(linear(p, "dense1", x.reshape(x.shape[0], -1))))


def gpt(heads):
    def attend(p, name, x):
        b, t, c = x.shape
        q, k, v = (part.reshape(b, t, heads, c // heads) for part in jnp.split(linear(p, name + ".qkv", x), 3, axis=-1))
        scores = jnp.einsum("bshd,bthd->bhst", q, k).astype(jnp.float32) / np.sqrt(c // heads)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
        seen = jnp.einsum("bhst,bthd->bshd", narrow(jax.nn.softmax(scores, axis=-1)), v)
        return linear(p, name + ".proj", seen.reshape(b, t, c))

    def model(p, ids, _):
        x = p["tok.weight"][ids] + p["pos.weight"][: ids.shape[1]]
        i = 0
        while f"blocks.{i}.up.weight" in p:
            block = f"blocks.{i}"
            x = x + attend(p, block + ".attn", layer_norm(p, block + ".ln1", x))
            up = jax.nn.gelu(linear(p, block + ".up", layer_norm(p, block + ".ln2", x)), approximate=True)
            x = x + linear(p, block + ".down", up)
            i += 1
        x = layer_norm(p, "ln", x)
        return linear(p, "head", x) if "head.weight" in p else narrow(x) @ narrow(p["tok.weight"]).T

    return model


def cross_entropy(output, y):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(output.astype(jnp.float32), axis=-1), y[..., None], axis=-1)
    return -chosen.mean()


def mse(output, y):
    return ((output - y) ** 2).mean()


def hinge(output, y):
    return jax.nn.relu(1 - y * output).mean()


# The model and the loss of each workload. A model is given parameters, examples, and the running statistics to change.
WORKLOADS = {
    "camelax-mnist": (lambda p, x, _: mlp(p, x, jnp.tanh), cross_entropy),
    "camelax-mul": (lambda p, x, _: mlp(p, x, jax.nn.relu), mse),
    "moons": (lambda p, x, _: mlp(p, x, jax.nn.relu), hinge),
    "names-mlp-b32": (names_mlp, cross_entropy),
    "names-mlp-b1024": (names_mlp, cross_entropy),
    "names-mlp-bn": (names_mlp, cross_entropy),
    "names-wavenet": (names_wavenet, cross_entropy),
    "names-transformer": (gpt(4), cross_entropy),
    "mnist-mlp": (lambda p, x, _: mlp(p, x, jax.nn.relu), cross_entropy),
    "lenet": (lenet, cross_entropy),
    "gpt-char-b4": (gpt(6), cross_entropy),
    "gpt-char-b64": (gpt(6), cross_entropy),
    "gpt2-124m": (gpt(12), cross_entropy),
}


def updated(about, params, gradients, moments, step):
    """Parameters and moments after a step of PyTorch's optimisers."""
    lr, decay = about["lr"], about.get("weight_decay", 0.01 if about["name"] == "adamw" else 0.0)
    each = jax.tree_util.tree_map
    if about["name"] == "adamw":
        params = each(lambda p: p * (1 - lr * decay), params)
    elif decay:
        gradients = each(lambda g, p: g + decay * p, gradients, params)
    if about["name"] == "sgd":
        if about.get("momentum"):
            gradients = moments = each(lambda m, g: about["momentum"] * m + g, moments, gradients)
        return each(lambda p, g: p - lr * g, params, gradients), moments
    first = each(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradients)
    second = each(lambda m, g: 0.999 * m + 0.001 * g * g, moments[1], gradients)
    rate, scale = (-factor / jnp.expm1((step + 1) * np.log(beta)) for factor, beta in ((lr, 0.9), (1, 0.999)))
    params = each(lambda p, m, s: p - rate * m / (jnp.sqrt(s * scale) + 1e-8), params, first, second)
    return params, (first, second)


def zeros_like(params):
    return jax.tree_util.tree_map(jnp.zeros_like, params)


class Training:
    def __init__(self, record):
        model, loss = WORKLOADS[record.name]
        self.x, self.y = jnp.asarray(array(record, "data.x")), jnp.asarray(array(record, "data.y"))
        params, about = params_of(record), record.optimizer
        moments = ()
        if about["name"] != "sgd":
            moments = (zeros_like(params), zeros_like(params))
        elif about.get("momentum"):
            moments = zeros_like(params)
        names = [name[: -len(".weight")] for name in params if name.endswith("norm.weight")]
        statistics = {name: (jnp.zeros_like(params[name + ".weight"]), jnp.ones_like(params[name + ".weight"]))
                      for name in names}
        batches = self.x.shape[0]

        def loss_of(p, x, y, old):
            new = dict(old)
            return loss(model(p, x, new), y), new

        def step(i, carried, x, y):
            params, moments, statistics, count, losses = carried
            batch = count % batches
            (value, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(params, x[batch], y[batch],
                                                                                        statistics)
            params, moments = updated(about, params, gradients, moments, count.astype(jnp.float32))
            return params, moments, statistics, count + 1, losses.at[batch].set(value)

        def steps(carried, x, y, number):
            return jax.lax.fori_loop(0, number, lambda i, now: step(i, now, x, y), carried)

        self.steps = jax.jit(steps, donate_argnums=0)
        self.carried = (params, moments, statistics, jnp.int32(0), jnp.zeros(batches, jnp.float32))

    def run(self, number):
        self.carried = jax.block_until_ready(self.steps(self.carried, self.x, self.y, jnp.int32(number)))

    def losses(self, number):
        self.run(number)
        return [float(value) for value in self.carried[-1][:number]]


def product(record):
    a, b = jnp.asarray(array(record, "param.a")), jnp.asarray(array(record, "param.b"))
    if record.name.endswith("-tn"):
        multiply = jax.jit(lambda a, b: a.T @ b)
    elif record.name.endswith("-nt"):
        multiply = jax.jit(lambda a, b: a @ b.T)
    else:
        multiply = jax.jit(lambda a, b: a @ b)
    expected = array(record, "result")
    difference = float(np.abs(np.asarray(multiply(a, b)) - expected).max() / np.abs(expected).max())

    def run(steps):
        for _ in range(steps):
            y = multiply(a, b)
        y.block_until_ready()

    return difference, run


def make(record, mode, settings):
    global PRECISION
    PRECISION = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}[record.precision]
    jax.config.update("jax_default_matmul_precision", "default" if settings["tf32"] else "highest")
    memory = None
    if settings["cuda"]:
        device = jax.devices()[0]
        if device.platform != "gpu":
            raise RuntimeError(f"jax {jax.__version__} finds no GPU")
        memory = lambda: (device.memory_stats() or {}).get("peak_bytes_in_use", 0)
    if record.is_product():
        return (jax.__version__, *product(record), memory)
    training = Training(record)
    expected = record.losses()
    return jax.__version__, records.difference(training.losses(len(expected)), expected), training.run, memory


if __name__ == "__main__":
    worker.main(make)
