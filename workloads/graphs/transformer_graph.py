#!/usr/bin/python3
"""Writes graph JSON (docs/reference/graph_format.md): a training step of a transformer.

    transformer_graph.py [--preset NAME] [--layers N] ... -o FILE

One training step on one of several devices: forward, backward and an Adam update, with a tensor per
result as a compiler's graph has them. Tensors that the backward pass reads again live until then.
Devices share each layer's matrices (an all-reduce after both halves of a layer, forwards and
backwards), and average gradients (an all-reduce per matrix and its bias, which lie side by side, as do
the results). Nodes are put on streams by category - compute, communication, other - and a new stream
is begun whenever one has --stream-limit nodes, as SOMAS (MLSys 2023, section 5.1) describes; with a
limit of 0 there is one stream. The order
is that of a program: as written, updates last. Parameters and optimizer state are not in the graph.

The presets are as wide as the networks in that paper's tables, and have about as many tensors and
groups; they are deeper than those networks, because a layer here has fewer nodes than MindSpore makes
of one. The same arguments give the same bytes.
"""

import argparse
import json
import sys

#            layers hidden heads sequence batch  vocabulary  split groups stream_limit
PRESETS = {
    "tiny-bert": (12, 312, 12, 128, 32, 30522, 1, 20, 200),
    "transformer": (22, 512, 8, 256, 16, 32000, 1, 20, 200),
    "bert-base": (28, 768, 12, 128, 32, 30522, 1, 20, 300),
    "bert-large": (53, 1024, 16, 128, 32, 30522, 1, 20, 300),
    "bert-nezha": (61, 1024, 16, 128, 24, 21128, 1, 20, 300),
    "pangu": (127, 2560, 32, 1024, 1, 40000, 8, 678, 400),
}


class Builder:
    def __init__(self, alignment):
        self.nodes = []
        self.tensors = []
        self.index = {}
        self.groups = []
        self.alignment = alignment

    def run(self, name, reads, writes, category="compute", workspace=0):
        """A node that reads these tensors and writes {name: bytes}, whose names it returns."""
        self.nodes.append((name, category))
        for tensor in reads:
            consumers = self.tensors[self.index[tensor]]["consumers"]
            if name not in consumers:
                consumers.append(name)
        results = list(writes)
        if workspace:
            writes = {**writes, name + ".workspace": workspace}
        for tensor, size in writes.items():
            self.index[tensor] = len(self.tensors)
            size = -(-size // self.alignment) * self.alignment
            self.tensors.append({"id": tensor, "producer": name, "consumers": [], "bytes": size,
                                 "alignment": self.alignment})
        return results

    def write(self, path, limit):
        current, count, places = {}, {}, {}
        for name, category in self.nodes:
            if limit == 0:
                category = "all"
            if category not in current or count[current[category]] == limit > 0:
                current[category] = len(count)
                count[current[category]] = 0
            stream = current[category]
            count[stream] += 1
            places[name] = (stream, count[stream])
        nodes = [{"id": n, "stream": places[n][0], "order": places[n][1]} for n, _ in self.nodes]
        graph = {"nodes": nodes, "tensors": self.tensors, "groups": self.groups,
                 "order": [n for n, _ in self.nodes]}
        text = json.dumps(graph, separators=(",", ":")) + "\n"
        if path == "-":
            sys.stdout.write(text)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        print(f"{path}: {len(self.nodes)} nodes on {len(count)} streams, {len(self.tensors)} tensors, "
              f"{len(self.groups)} groups", file=sys.stderr)


class Transformer:
    """A layer is a list of steps; each knows how to run backwards from the gradient of its result."""

    def __init__(self, options):
        o = options
        self.b = Builder(o.alignment)
        self.o = o
        self.rows = o.batch * o.sequence
        self.item = 2  # half precision
        self.gradients = []  # (parameter, tensor)
        self.tape = []

    def wide(self, columns):
        return self.rows * columns * self.item

    def linear(self, name, x, rows, columns, out_columns):
        """x W + b, as two nodes; backwards: gradients of x, W and b."""
        b, item = self.b, self.item
        weight, bias = rows * columns * item, columns * item
        (y,) = b.run(f"{name}.matmul", [x], {f"{name}.y": self.wide(out_columns)},
                     workspace=1 << 20)
        (z,) = b.run(f"{name}.bias", [y], {f"{name}.z": self.wide(out_columns)})

        def backward(dz):
            (db,) = b.run(f"{name}.bias.grad", [dz], {f"{name}.db": bias})
            (xt,) = b.run(f"{name}.transpose", [x], {f"{name}.xt": b.tensors[b.index[x]]["bytes"]})
            (dw,) = b.run(f"{name}.weight.grad", [xt, dz], {f"{name}.dw": weight},
                          workspace=1 << 20)
            (dx,) = b.run(f"{name}.input.grad", [dz], {f"{name}.dx": self.wide(rows)},
                          workspace=1 << 20)
            self.gradients.append((name, [(f"{name}.w", dw, weight), (f"{name}.b", db, bias)]))
            return dx

        return z, backward

    def unary(self, name, x, size, keep_result=False, extra=None):
        """y = f(x); backwards reads x, or the result, and what was put aside."""
        b = self.b
        made = b.run(name, [x], {f"{name}.y": size, **({f"{name}.aside": extra} if extra else {})})

        def backward(dy):
            reads = [dy] + ([made[0]] if keep_result else [x]) + made[1:]
            (dx,) = b.run(f"{name}.grad", reads, {f"{name}.dx": b.tensors[b.index[x]]["bytes"]})
            return dx

        return made[0], backward

    def norm(self, name, x):
        b, o = self.b, self.o
        size, stats = self.wide(o.hidden), self.rows * 4
        y, mean, scale = b.run(name, [x], {f"{name}.y": size, f"{name}.mean": stats,
                                           f"{name}.scale": stats})

        def backward(dy):
            dx, dg, db = b.run(f"{name}.grad", [dy, x, mean, scale],
                               {f"{name}.dx": size, f"{name}.dg": o.hidden * 4,
                                f"{name}.db": o.hidden * 4})
            self.gradients.append((name, [(f"{name}.g", dg, o.hidden * 4),
                                          (f"{name}.b", db, o.hidden * 4)]))
            return dx

        return y, backward

    def all_reduce(self, name, x):
        b = self.b
        if self.o.split == 1:
            return x
        size = b.tensors[b.index[x]]["bytes"]
        (y,) = b.run(name, [x], {f"{name}.y": size}, "communication")
        return y

    def add(self, name, x, y):
        (z,) = self.b.run(name, [x, y], {f"{name}.z": self.b.tensors[self.b.index[x]]["bytes"]})
        return z

    def attention(self, name, x):
        """Returns the result and its backward function."""
        b, o = self.b, self.o
        width = o.hidden // o.split
        heads = max(1, o.heads // o.split)
        scores = o.batch * heads * o.sequence * o.sequence * self.item
        parts, backs = [], []
        for part in "qkv":
            z, back = self.linear(f"{name}.{part}", x, o.hidden, width, width)
            (h,) = b.run(f"{name}.{part}.heads", [z], {f"{name}.{part}.h": self.wide(width)})
            parts.append(h)
            backs.append(back)
        q, k, v = parts
        (s,) = b.run(f"{name}.scores", [q, k], {f"{name}.s": scores}, workspace=1 << 20)
        (m,) = b.run(f"{name}.mask", [s], {f"{name}.m": scores})
        p, softmax_back = self.unary(f"{name}.softmax", m, scores, keep_result=True)
        d, dropout_back = self.unary(f"{name}.dropout", p, scores, keep_result=True,
                                     extra=scores // (8 * self.item))
        (c,) = b.run(f"{name}.context", [d, v], {f"{name}.c": self.wide(width)}, workspace=1 << 20)
        (t,) = b.run(f"{name}.merge", [c], {f"{name}.t": self.wide(width)})
        z, out_back = self.linear(f"{name}.out", t, width, o.hidden, o.hidden)
        z = self.all_reduce(f"{name}.reduce", z)

        def backward(dz):
            dt = out_back(dz)
            (dc,) = b.run(f"{name}.merge.grad", [dt], {f"{name}.dc": self.wide(width)})
            (dd,) = b.run(f"{name}.context.grad.d", [dc, v], {f"{name}.dd": scores},
                          workspace=1 << 20)
            (dv,) = b.run(f"{name}.context.grad.v", [dc, d], {f"{name}.dv": self.wide(width)},
                          workspace=1 << 20)
            ds = softmax_back(dropout_back(dd))
            (dm,) = b.run(f"{name}.scale.grad", [ds], {f"{name}.dm": scores})
            (dq,) = b.run(f"{name}.scores.grad.q", [dm, k], {f"{name}.dq": self.wide(width)})
            (dk,) = b.run(f"{name}.scores.grad.k", [dm, q], {f"{name}.dk": self.wide(width)})
            results = []
            for part, back, gradient in zip("qkv", backs, (dq, dk, dv)):
                (g,) = b.run(f"{name}.{part}.heads.grad", [gradient],
                             {f"{name}.{part}.dh": self.wide(width)})
                results.append(back(g))
            (sum1,) = b.run(f"{name}.input.sum1", results[:2], {f"{name}.dx1": self.wide(o.hidden)})
            (sum2,) = b.run(f"{name}.input.sum2", [sum1, results[2]],
                            {f"{name}.dx2": self.wide(o.hidden)})
            return self.all_reduce(f"{name}.input.reduce", sum2)

        return z, backward

    def feed_forward(self, name, x):
        o = self.o
        inner = 4 * o.hidden // o.split
        y, first = self.linear(f"{name}.up", x, o.hidden, inner, inner)
        g, gelu = self.unary(f"{name}.gelu", y, self.wide(inner))
        z, second = self.linear(f"{name}.down", g, inner, o.hidden, o.hidden)
        z = self.all_reduce(f"{name}.reduce", z)
        return z, lambda dz: self.all_reduce(f"{name}.input.reduce", first(gelu(second(dz))))

    def layer(self, name, x):
        """Two halves, each around a residual connection."""
        backs = []
        for half, inside in (("attention", self.attention), ("mlp", self.feed_forward)):
            base = f"{name}.{half}"
            y, norm_back = self.norm(f"{base}.norm", x)
            z, inside_back = inside(base, y)
            size = self.b.tensors[self.b.index[z]]["bytes"]
            d, dropout_back = self.unary(f"{base}.residual.dropout", z, size, keep_result=True,
                                         extra=size // (8 * self.item))
            x = self.add(f"{base}.residual", x, d)
            backs.append((base, norm_back, inside_back, dropout_back))

        def backward(dx):
            for base, norm_back, inside_back, dropout_back in reversed(backs):
                inner = norm_back(inside_back(dropout_back(dx)))
                dx = self.add(f"{base}.residual.grad", dx, inner)
            return dx

        return x, backward

    def build(self):
        b, o = self.b, self.o
        (ids,) = b.run("input", [], {"ids": self.rows * 4}, "other")
        (x,) = b.run("embedding", [ids], {"embedding.y": self.wide(o.hidden)})
        backs = []
        for i in range(o.layers):
            x, back = self.layer(f"layer{i}", x)
            backs.append(back)
        x, norm_back = self.norm("final.norm", x)
        logits = self.rows * (o.vocabulary // o.split) * self.item
        (y,) = b.run("logits", [x], {"logits.y": logits}, workspace=1 << 20)
        (p,) = b.run("loss", [y, ids], {"loss.p": logits, "loss.value": 4})[:1]
        (dy,) = b.run("loss.grad", [p, ids], {"loss.dy": logits})
        (dx,) = b.run("logits.grad", [dy], {"logits.dx": self.wide(o.hidden)})
        dx = norm_back(self.all_reduce("logits.reduce", dx))
        for back in reversed(backs):
            dx = back(dx)
        b.run("embedding.grad", [dx, ids], {"embedding.dw": o.vocabulary // o.split * o.hidden * 2})
        self.update()

    def update(self):
        """Averages gradients between devices, in groups while there are some left, then updates."""
        b = self.b
        groups = self.o.groups
        ready = []
        for name, parts in self.gradients:
            sources = [tensor for _, tensor, _ in parts]
            sizes = {f"{parameter}.mean": size for parameter, _, size in parts}
            results = b.run(f"{name}.average", sources, sizes, "communication")
            for group in (sources, results):
                if groups > 0:
                    b.groups.append(group)
                    groups -= 1
            ready.append((name, parts, results))
        for name, parts, results in ready:
            for (parameter, _, size), mean in zip(parts, results):
                (wide,) = b.run(f"{parameter}.cast", [mean], {f"{parameter}.fp32": size * 2}, "other")
                b.run(f"{parameter}.adam", [wide], {}, "other", workspace=512)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", choices=sorted(PRESETS), default="pangu")
    names = ["layers", "hidden", "heads", "sequence", "batch", "vocabulary", "split", "groups",
             "stream_limit"]
    for name in names:
        parser.add_argument("--" + name.replace("_", "-"), type=int)
    parser.add_argument("--alignment", type=int, default=512)
    parser.add_argument("-o", "--output", default="-")
    options = parser.parse_args()
    for name, value in zip(names, PRESETS[options.preset]):
        if getattr(options, name) is None:
            setattr(options, name, value)
    transformer = Transformer(options)
    transformer.build()
    transformer.b.write(options.output, options.stream_limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
