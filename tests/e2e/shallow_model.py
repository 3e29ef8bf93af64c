"""A GGUF file with the first layers of another one: what it says makes no sense, but its vocabulary and its template are those of the
whole model, and it costs a fraction. For tests in which it does not matter what a model says."""
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of values of a fixed size, by their types
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            of, count = self.number("I"), self.number("Q")
            if of in SIZES:
                self.at += SIZES[of] * count
            else:
                for _ in range(count):
                    self.skip(of)
        else:
            self.at += SIZES[kind]


def write_shallow(source, target, layers=1):
    data = source.read_bytes()
    reader = Reader(data)
    assert reader.number("I") == 0x46554747  # GGUF
    version, tensors, pairs = reader.number("I"), reader.number("Q"), reader.number("Q")
    alignment, head = 32, bytearray()
    for _ in range(pairs):
        begin = reader.at
        key, kind = reader.text(), reader.number("I")
        value_at = reader.at
        reader.skip(kind)
        pair = bytearray(data[begin:reader.at])
        if key.endswith(b".block_count"):
            struct.pack_into("<I", pair, value_at - begin, layers)
        if key == b"general.alignment":
            alignment, = struct.unpack_from("<I", data, value_at)
        head += pair
    entries = []
    for _ in range(tensors):
        begin = reader.at
        name, dimensions = reader.text(), reader.number("I")
        reader.at += 8 * dimensions + 4
        entries.append((reader.number("Q"), name, data[begin:reader.at - 8]))
    start = -(-reader.at // alignment) * alignment
    ends = sorted(offset for offset, _, _ in entries)[1:] + [len(data) - start]
    infos, bodies, kept = bytearray(), bytearray(), 0
    for (offset, name, info), end in zip(sorted(entries), ends, strict=True):
        parts = name.split(b".")
        if parts[0] == b"blk" and int(parts[1]) >= layers:
            continue
        infos += info + struct.pack("<Q", len(bodies))
        bodies += data[start + offset:start + end]
        bodies += b"\0" * (-len(bodies) % alignment)
        kept += 1
    whole = struct.pack("<IIQQ", 0x46554747, version, kept, pairs) + head + infos
    target.write_bytes(whole + b"\0" * (-len(whole) % alignment) + bodies)
    return target
