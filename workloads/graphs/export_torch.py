#!/usr/bin/python3
"""Writes graph JSON (docs/reference/graph_format.md) for torchvision models with random weights.

    export_torch.py [--mode forward|training] [--batch N] [--streams LIMIT] [-o FOLDER] [NET...]

forward: torch.fx's symbolic trace of the model in inference, one node per module or function call,
with the shapes of one run; make_fx's where that cannot be (vit_b_16), which is said. training: make_fx's trace of forward, loss and backward down to ATen
operators, as autograd runs them, and one update per parameter after that, as optimizer.step() does.
Nothing is mirrored or guessed in either mode; where this version of torch cannot trace, the net is
skipped and said so. Parameters and their gradients' targets are not in the graph: they live all the
time. Views have no memory of their own: they are aliases of all of their tensor, because torch.fx does
not say which part they show. What is written in place says so. The order is that of the trace.

With --streams, nodes are put on streams by category (compute, communication, other), a new stream
whenever one has LIMIT nodes; training then reduces gradients in buckets (communication), whose
gradients lie side by side.

Needs Debian's python3-torch and python3-torchvision. Downloads nothing.
"""

import argparse
import json
import pathlib
import sys
import warnings

NETS = ["squeezenet1_1", "mobilenet_v2", "resnet50", "wide_resnet50_2", "googlenet", "vgg16",
        "efficientnet_b0", "vit_b_16"]
ALIGNMENT = 64  # bytes
SKIPPED = 77

# Operators whose result is a window onto their first argument.
VIEWS = {"view", "_unsafe_view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "alias",
         "detach", "select", "slice", "as_strided", "split", "unbind", "lift_fresh", "_reshape_alias",
         "split_with_sizes", "diagonal", "chunk"}


class Graph:
    """Nodes, tensors and groups as they will be written."""

    def __init__(self):
        self.nodes = []
        self.category = {}
        self.tensors = {}
        self.groups = []

    def node(self, name, category="compute"):
        self.nodes.append(name)
        self.category[name] = category

    def tensor(self, name, producer, size, alias_of=None, in_place=False):
        """An alias of 0 bytes is all of its target."""
        self.tensors[name] = {"id": name, "producer": producer, "consumers": [], "bytes": size,
                              "alignment": ALIGNMENT, "alias_of": alias_of,
                              "in_place": in_place if alias_of is not None else None}

    def use(self, name, node):
        consumers = self.tensors[name]["consumers"]
        if node not in consumers:
            consumers.append(node)

    def streams(self, limit):
        """By category, a new stream whenever one is full."""
        streams, current, count = {}, {}, {}
        for node in self.nodes:
            category = self.category[node]
            if limit and (category not in current or count[current[category]] == limit):
                current[category] = len(count)
                count[current[category]] = 0
            stream = current.get(category, 0)
            count[stream] = count.get(stream, 0) + 1
            streams[node] = (stream, count[stream])
        return streams

    def write(self, path, limit):
        places = self.streams(limit)
        nodes = [{"id": n, "stream": places[n][0], "order": places[n][1]} for n in self.nodes]
        tensors = [{k: v for k, v in t.items() if v is not None} for t in self.tensors.values()]
        text = {"nodes": nodes, "tensors": tensors, "groups": self.groups, "order": self.nodes}
        path.write_text(json.dumps(text, separators=(",", ":")) + "\n")


def nbytes(value):
    """Rounded up, as allocators of tensors do; so that gradients can lie side by side, aligned."""
    return -(-value.numel() * value.element_size() // ALIGNMENT) * ALIGNMENT


def flat(value):
    """The tensors in a result, in order."""
    import torch
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return []


def build(module, values, is_view, parameters):
    """A Graph of an fx module whose nodes had these values, and the names of every node's tensors.

    Inputs are tensors without a producer, but for the parameters, which are left out.
    """
    graph = Graph()
    outputs = {}  # fx node -> names of its tensors
    for node in module.graph.nodes:
        value = values.get(node.name)
        tensors = flat(value)
        if node.op == "output":
            # What is returned is read by whoever called: a node of its own at the end.
            graph.node("output", "other")
            for argument in node.all_input_nodes:
                for name in outputs.get(argument.name, []):
                    graph.use(name, "output")
            continue
        if node.op == "placeholder" or node.op == "get_attr":
            outputs[node.name] = []
            if node.op == "placeholder" and tensors and node.name not in parameters:
                graph.tensor(node.name, None, nbytes(tensors[0]))
                outputs[node.name] = [node.name]
            continue
        operands = node.all_input_nodes
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem":
            source = outputs.get(operands[0].name, [])
            index = node.args[1]
            outputs[node.name] = ([source[index]] if isinstance(index, int) and index < len(source)
                                  else source)
            continue
        if not tensors:
            outputs[node.name] = []
            continue
        graph.node(node.name)
        for operand in operands:
            for name in outputs.get(operand.name, []):
                graph.use(name, node.name)
        base = outputs.get(operands[0].name, []) if operands else []
        outputs[node.name] = []
        for i, tensor in enumerate(tensors):
            name = node.name if len(tensors) == 1 else f"{node.name}:{i}"
            if is_view(node):
                # A view of a parameter needs nothing.
                if base:
                    in_place = writes_in_place(node, module)
                    graph.tensor(name, node.name, 0, base[0], in_place)
                    if in_place:  # whoever uses the argument later finds the result
                        base[0] = name
                    outputs[node.name].append(name)
                continue
            graph.tensor(name, node.name, nbytes(tensor))
            outputs[node.name].append(name)
    return graph, outputs


def writes_in_place(node, module):
    """Whether what is_view takes for a view writes its result over its argument."""
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(node.target), "inplace", False))
    packet = getattr(node.target, "overloadpacket", None)
    text = getattr(packet, "__name__", getattr(node.target, "__name__", str(node.target)))
    return text.endswith("_") and not text.startswith("_")


def make_model(name):
    import torchvision
    extra = {"googlenet": {"aux_logits": False, "init_weights": False}}.get(name, {})
    return getattr(torchvision.models, name)(weights=None, **extra)


def view_of_aten(node):
    packet = getattr(node.target, "overloadpacket", None)
    text = getattr(packet, "__name__", getattr(node.target, "__name__", ""))
    return text in VIEWS or (text.endswith("_") and not text.startswith("_"))


def run_recorded(module, arguments):
    """The value of every node of an fx module, by name."""
    import torch
    from torch import fx
    values = {}

    class Recorder(fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            values[node.name] = result
            return result

    with torch.no_grad():
        Recorder(module).run(*arguments)
    return values


def forward(name, batch):
    import torch
    from torch import fx
    from torch.fx.experimental.proxy_tensor import make_fx
    model = make_model(name).eval()
    image = torch.randn(batch, 3, 224, 224)
    try:
        module = fx.symbolic_trace(model)
    except Exception:  # control flow that depends on values: then down to ATen operators
        print(f"{name}: not for torch.fx's symbolic trace; traced by make_fx", file=sys.stderr)
        with torch.no_grad():
            module = make_fx(lambda x: model(x))(image)
        module.graph.eliminate_dead_code()
        return build(module, run_recorded(module, [image]), view_of_aten, set())[0]

    def is_view(node):
        if node.op == "call_module":
            kind = type(module.get_submodule(node.target)).__name__
            inplace = getattr(module.get_submodule(node.target), "inplace", False)
            return inplace or kind in ("Dropout", "Flatten", "Identity")
        if node.op == "call_method":
            return node.target in VIEWS | {"flatten", "reshape"}
        return getattr(node.target, "__name__", "") in VIEWS | {"flatten", "reshape"}

    return build(module, run_recorded(module, [image]), is_view, set())[0]


def training(name, batch, buckets):
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.nn.utils.stateless import functional_call
    model = make_model(name).train()
    names = [n for n, _ in model.named_parameters()]
    parameters = [p.detach() for _, p in model.named_parameters()]
    held = dict(model.named_buffers())

    def step(parameters, image, target):
        parameters = [p.requires_grad_(True) for p in parameters]
        state = dict(zip(names, parameters))
        state.update(held)
        result = functional_call(model, state, (image,))
        loss = torch.nn.functional.cross_entropy(result, target)
        return torch.autograd.grad(loss, parameters)

    image = torch.randn(batch, 3, 224, 224)
    target = torch.randint(0, 1000, (batch,))
    module = make_fx(step)(parameters, image, target)
    module.graph.eliminate_dead_code()
    inputs = {node.name for node in list(module.graph.nodes)[:len(parameters)]
              if node.op == "placeholder"}
    values = run_recorded(module, [*parameters, image, target])
    graph, outputs = build(module, values, view_of_aten, inputs)
    # In place of the output: a gradient per parameter, and its update.
    graph.nodes.remove("output")
    result = [node for node in module.graph.nodes if node.op == "output"][0]
    gradients = []
    for argument in flat_nodes(result.args):
        gradients.append((outputs.get(argument.name) or [None])[0])
    for tensor in graph.tensors.values():
        tensor["consumers"] = [c for c in tensor["consumers"] if c != "output"]
    add_updates(graph, names, gradients, buckets)
    return graph


def flat_nodes(value):
    if isinstance(value, (list, tuple)):
        return [n for v in value for n in flat_nodes(v)]
    return [value]


def add_updates(graph, names, gradients, buckets):
    """One update per parameter; with buckets, gradients are reduced together, side by side, first."""
    waiting, waiting_bytes = [], 0
    todo = [(n, g) for n, g in zip(names, gradients) if g is not None]
    root = lambda g: g if graph.tensors[g]["alias_of"] is None else root(graph.tensors[g]["alias_of"])
    grouped = set()
    reduced = {}  # root of gradients -> the result
    for name, gradient in reversed(todo):
        if not buckets:
            continue
        waiting.append(gradient)
        waiting_bytes += graph.tensors[root(gradient)]["bytes"]
        if waiting_bytes < buckets and name != todo[0][0]:
            continue
        reduce = f"all_reduce_{len(graph.groups)}"
        graph.node(reduce, "communication")
        group = []
        for g in waiting:
            graph.use(g, reduce)
            # Reduced in place: later readers wait for it.
            if root(g) not in reduced:
                reduced[root(g)] = f"{g}:reduced"
                graph.tensor(f"{g}:reduced", reduce, 0, g, in_place=True)
            if root(g) not in grouped:
                grouped.add(root(g))
                group.append(root(g))
        if len(group) > 1:
            graph.groups.append(group)
        waiting, waiting_bytes = [], 0
    for name, gradient in todo:
        update = f"update:{name}"
        graph.node(update, "other")
        graph.use(reduced[root(gradient)] if buckets else gradient, update)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("nets", nargs="*", default=NETS, metavar="NET")
    parser.add_argument("--mode", choices=["forward", "training"], default="training")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--streams", type=int, default=0, metavar="LIMIT",
                        help="nodes per stream; 0: one stream")
    parser.add_argument("-o", "--output", default=".", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        import torch
        import torchvision
    except ImportError as error:
        print(f"export_torch: skipped: {error}; Debian has python3-torch and python3-torchvision",
              file=sys.stderr)
        return SKIPPED
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    arguments.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in arguments.nets:
        try:
            if arguments.mode == "forward":
                graph = forward(name, arguments.batch)
            else:
                graph = training(name, arguments.batch, 25 << 20 if arguments.streams else 0)
        except Exception as error:  # whatever this version cannot trace
            print(f"export_torch: {name}: not traced by torch {torch.__version__}, torchvision "
                  f"{torchvision.__version__}: {str(error).splitlines()[0]}", file=sys.stderr)
            failed += 1
            continue
        suffix = f"_{arguments.mode}" + (f"_streams{arguments.streams}" if arguments.streams else "")
        path = arguments.output / f"{name}{suffix}.json"
        graph.write(path, arguments.streams)
        print(f"{path}: {len(graph.nodes)} nodes, {len(graph.tensors)} tensors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
