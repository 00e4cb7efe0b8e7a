"""A record of `caravan bench --write`: initial values, data, and what Caravan computed with them."""
import json
import struct


class Record:
    """Tensors by name, each with its type ("F32", "I32"), its sizes and its bytes; texts in `metadata`."""

    def __init__(self, path):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            content = file.read()
        self.metadata = header.pop("__metadata__")
        self.name = self.metadata["name"]
        self.precision = self.metadata.get("precision", "f32")
        self.optimizer = json.loads(self.metadata["optimizer"] or "{}")
        self.tensors = {}
        for name, about in header.items():
            begin, end = about["data_offsets"]
            self.tensors[name] = (about["dtype"], about["shape"], bytearray(content[begin:end]))

    def losses(self):
        dtype, sizes, content = self.tensors["losses"]
        return list(struct.unpack(f"<{sizes[0]}{'d' if dtype == 'F64' else 'f'}", content))

    def is_product(self):
        return "result" in self.tensors

    def params(self):
        """The names of the initial values, as Caravan calls them."""
        return [name[len("param."):] for name in self.tensors if name.startswith("param.")]


def difference(losses, expected):
    """The largest difference, relative to the largest expected value; not a number where either is none."""
    worst, scale = 0.0, max(abs(value) for value in expected)
    for a, b in zip(losses, expected):
        if not abs(a - b) <= worst * scale:
            worst = abs(a - b) / scale
    return worst
