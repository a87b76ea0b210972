#!/usr/bin/env python3
"""Times PyTorch on one GPU for scripts/gpu_check.sh.

gpu_check_layer.py host --output FILE     host time of one launched operation, as a line of a samples file
gpu_check_layer.py layers --plan TP-PLAN --cluster PROFILE [--output FILE] [--table FILE]
                                          forward and backward of a transformer layer at three sizes, against what
                                          tp-plan predicts with the profile
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as functional

# hidden, MLP, heads, query groups, tokens, sequences: a layer of a model with 1, 8 and 70 billion parameters.
SIZES = [
    (2048, 8192, 32, 8, 4096, 2),
    (4096, 14336, 32, 8, 4096, 1),
    (8192, 28672, 64, 8, 4096, 1),
]
REPEATS = 15


class Layer(torch.nn.Module):
    """Norm, grouped-query attention with rotary embedding, norm, gated MLP; bf16, no biases, no dropout."""

    def __init__(self, hidden, ffn, heads, groups, tokens):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, hidden // heads

        def linear(out, inner):
            return torch.nn.Parameter(torch.randn(out, inner, device="cuda", dtype=torch.bfloat16) / inner**0.5)

        self.qkv = linear(hidden + 2 * groups * self.size, hidden)
        self.out = linear(hidden, hidden)
        self.gate_up = linear(2 * ffn, hidden)
        self.down = linear(hidden, ffn)
        self.norm1 = torch.nn.Parameter(torch.ones(hidden, device="cuda", dtype=torch.bfloat16))
        self.norm2 = torch.nn.Parameter(torch.ones(hidden, device="cuda", dtype=torch.bfloat16))
        angles = torch.outer(torch.arange(tokens, device="cuda").float(),
                             500000.0 ** (-torch.arange(0, self.size, 2, device="cuda").float() / self.size))
        self.cos = torch.cat([angles.cos()] * 2, -1).bfloat16()
        self.sin = torch.cat([angles.sin()] * 2, -1).bfloat16()

    def rotate(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def attention(self, x):
        batch, tokens, hidden = x.shape
        heads = functional.linear(x, self.qkv).view(batch, tokens, -1, self.size).transpose(1, 2)
        q, k, v = heads.split([self.heads, self.groups, self.groups], 1)
        y = functional.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        return functional.linear(y.transpose(1, 2).reshape(batch, tokens, hidden), self.out)

    def forward(self, x):
        x = x + self.attention(functional.rms_norm(x, x.shape[-1:], self.norm1))
        gate, up = functional.linear(functional.rms_norm(x, x.shape[-1:], self.norm2), self.gate_up).chunk(2, -1)
        return x + functional.linear(functional.silu(gate) * up, self.down)


def timed(parts):
    """Median seconds of each part of one run; the GPU is kept busy first, so that the host is ahead of it."""
    totals = [[] for _ in parts]
    for repeat in range(REPEATS + 3):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(parts) + 1)]
        torch.cuda._sleep(40_000_000)  # cycles: some 20 ms
        events[0].record()
        value = None
        for part, event in zip(parts, events[1:]):
            value = part(value)
            event.record()
        torch.cuda.synchronize()
        for i, total in enumerate(totals):
            if repeat >= 3:
                total.append(events[i].elapsed_time(events[i + 1]) * 1e-3)
    return [statistics.median(total) for total in totals]


def measure_layer(size, backend):
    hidden, ffn, heads, groups, tokens, batch = size
    torch.manual_seed(1)
    layer = Layer(hidden, ffn, heads, groups, tokens)
    x = torch.randn(batch, tokens, hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn_like(x)

    def backward(y):
        for parameter in [x, *layer.parameters()]:
            parameter.grad = None
        y.backward(gradient)

    with torch.nn.attention.sdpa_kernel(backend):
        return timed([lambda _: layer(x), backward])


def predict(plan, cluster, size, attention):
    """Forward and backward seconds of a layer: half the difference of models with two and with four."""
    hidden, ffn, heads, groups, tokens, batch = size
    stages = []
    for layers in (2, 4):
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
                  "intermediate_size": ffn, "num_attention_heads": heads, "num_key_value_heads": groups,
                  "num_hidden_layers": layers, "vocab_size": 32000, "max_position_embeddings": 131072,
                  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": False}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(config, file)
            file.flush()
            done = subprocess.run(
                [plan, "predict", "--model", file.name, "--cluster", cluster, "--gpus", "1", "--seq-length", str(tokens),
                 "--global-batch-size", str(batch), "--strategy", f"tp=1,mbs={batch}", "--framework", "other",
                 "--attention", attention, "--norm-kernel", "fused", "--activation-kernel", "eager", "--rope-kernel",
                 "eager", "--json"], stdout=subprocess.PIPE, text=True, check=False)
        answer = json.loads(done.stdout)
        if "stages" not in answer:
            raise SystemExit(f"tp-plan predict: {answer.get('error', {}).get('message', done.stdout)}")
        stages.append(answer["stages"][0])
    return [(stages[1][key] - stages[0][key]) / 2 for key in ("forward_seconds", "backward_seconds")]


def attention_backends():
    """The fused kernels of PyTorch that work here, with the profile's name of their generation."""
    backends = torch.nn.attention.SDPBackend
    newer = torch.cuda.get_device_capability()[0] >= 9
    found = []
    for name, backend, kernel in (("cudnn", backends.CUDNN_ATTENTION, "flash3" if newer else "flash2"),
                                  ("flash", backends.FLASH_ATTENTION, "flash2")):
        q = torch.randn(1, 2, 128, 128, device="cuda", dtype=torch.bfloat16)
        try:
            with torch.nn.attention.sdpa_kernel(backend):
                functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            found.append((name, backend, kernel))
        except RuntimeError as error:
            print(f"{name} attention does not work here: {error}")
    return found


def layers(arguments):
    device = torch.cuda.get_device_name()
    cluster = os.path.basename(arguments.cluster).removesuffix(".json")
    lines = [f"{device}, PyTorch {torch.__version__}, profile {cluster}; seconds x 1000, predicted against measured",
             f"{'hidden':>7} {'tokens':>7} {'attention':>10} {'forward':>22} {'backward':>22} {'both':>22}"]
    for name, backend, kernel in attention_backends():
        for size in SIZES:
            try:
                measured = measure_layer(size, backend)
            except RuntimeError as error:
                print(f"{name} attention, hidden {size[0]}: {error}")
                continue
            predicted = predict(arguments.plan, arguments.cluster, size, kernel)
            pairs = [*zip(predicted, measured), (sum(predicted), sum(measured))]
            cells = " ".join(f"{1e3 * p:7.3f} /{1e3 * m:7.3f} {100 * (p / m - 1):+5.1f}%" for p, m in pairs)
            lines.append(f"{size[0]:7d} {size[4] * size[5]:7d} {name:>10} {cells}")
            row = {"device": device, "torch": torch.__version__, "cluster": cluster, "attention": name,
                   "hidden_size": size[0], "ffn_hidden_size": size[1], "num_attention_heads": size[2],
                   "num_query_groups": size[3], "sequence_length": size[4], "micro_batch_size": size[5],
                   "measured_forward_seconds": measured[0], "measured_backward_seconds": measured[1],
                   "predicted_forward_seconds": predicted[0], "predicted_backward_seconds": predicted[1]}
            if arguments.output:
                with open(arguments.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print("\n".join(lines))
    if arguments.table:
        with open(arguments.table, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    if len(lines) == 2:
        raise SystemExit("no layer could be timed")


def host(arguments):
    """What the host needs for an eager operation: many small ones, fewer than the queue holds."""
    a = torch.ones(64, device="cuda")
    b = torch.ones_like(a)
    values = []
    for repeat in range(12):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(500):
            torch.add(a, b)
        if repeat >= 3:
            values.append((time.perf_counter() - begin) / 500)
    rows = [{"kind": "run", "schema_version": 1, "program": "gpu_check_layer.py", "device": torch.cuda.get_device_name(),
             "libraries": {"torch": torch.__version__}},
            {"kind": "value", "key": "gpu.host_launch_seconds", "method": "500 eager additions of 64 numbers",
             "values": values}]
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["host", "layers"])
    parser.add_argument("--plan", default="build/tp-plan")
    parser.add_argument("--cluster", default="dgx-h200")
    parser.add_argument("--output")
    parser.add_argument("--table")
    arguments = parser.parse_args()
    host(arguments) if arguments.what == "host" else layers(arguments)


if __name__ == "__main__":
    main()
