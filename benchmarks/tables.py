"""The tables of BENCHMARKS.md, out of the files in this folder. A table stands between the comments
`<!-- table NAME -->` and `<!-- end -->`.

usage: tables.py TOP [--refresh]
"""
import json
import os
import re
import sys

TENSORS = ("grad_bf16", "weight_bf16", "act_bf16", "grad_f32", "grad_f32_accum")
TABLE = re.compile(r"(<!-- table ([\w-]+) -->\n)(.*?)(\n<!-- end -->)", re.S)


def read(top, name):
    with open(os.path.join(top, "benchmarks", name), encoding="utf-8") as f:
        return json.load(f)


def compile_table(top, name):
    measured = read(top, name)
    yield "| ranks | transfers | tasks | time | a transfer | peak memory |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for p in measured["points"]:
        s = p["seconds"]
        time = f"{s * 1e3:.1f} ms" if s < 0.1 else f"{s:.2f} s"
        yield (f"| {p['ranks']:,} | {p['transfers']:,} | {p['tasks']:,} | {time} "
               f"| {s / p['transfers'] * 1e6:.2f} us | {p['peak_bytes'] / 2**20:,.0f} MiB |")
    yield ""
    yield f"Time grows as operations ^ {measured['exponent']:.2f}, by least squares over these rows."


def codec_table(top, kind, machine="", only=None):
    yield "| file | codec | encoded / raw | encode GB/s | decode GB/s |"
    yield "|---|---|---:|---:|---:|"
    for tensor in TENSORS:
        for c in read(top, f"codec-{kind}-{tensor}{machine}.json")["codecs"]:
            if only and c["codec"] not in only:
                continue
            name = c["codec"].replace("|", "\\|")
            yield (f"| {tensor} | `{name}` | {c['ratio']:.4f} | {c['encode_gb_per_s']:.2f} "
                   f"| {c['decode_gb_per_s']:.2f} |")


def collective_table(top, *files):
    """A size after another, NCCL's own first."""
    yield "| type, data | size | what | time | x NCCL | in place | wire / raw | overflows | wrong |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|"
    for name in files:
        measured = read(top, name)
        data = os.path.splitext(os.path.basename(measured["data"]))[0]
        for row in measured["rows"]:
            out, place = row["out_of_place"], row.get("in_place")
            what = row["name"].replace("|", "\\|")
            again = f"{place['seconds'] * 1e3:.1f} ms" if place else ""
            ratio = f"{row['ratio']:.3f}" if "ratio" in row else ""
            wrong = out.get("wrong", 0) + (place or {}).get("wrong", 0)
            yield (f"| {measured['dtype']} {data} | {row['bytes'] / 2**20:g} MiB | `{what}` "
                   f"| {out['seconds'] * 1e3:.1f} ms | {row['times_nccl']:.2f} | {again} | {ratio} "
                   f"| {row.get('overflows', '')} | {wrong if 'wrong' in out else ''} |")


def codec_gpu_table(top, codecs, sizes):
    """A kernel is given as raw GB/s (percent of what its bytes allow)."""
    yield "| file | codec | piece | encoded / raw | encode | decode | decode + add | decode + add + encode |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for tensor in TENSORS:
        for c in read(top, f"codec-gpu-{tensor}.json")["codecs"]:
            if c["codec"] not in codecs or c["raw_bytes"] >> 20 not in sizes:
                continue
            rates = " | ".join(f"{k['gb_per_s']:,.0f} ({k['percent_of_limit']:.0f} %)" for k in c["kernels"][:4])
            yield f"| {tensor} | `{c['codec']}` | {c['raw_bytes'] >> 20:,} MiB | {c['ratio']:.4f} | {rates} |"


def codec_gpu_values_table(top, tensors):
    yield "| file | codec | encoded / raw | encode | decode | decode + add | decode + add + encode | 3 pieces + add + encode |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for tensor in tensors:
        for c in read(top, f"codec-gpu-values-{tensor}.json")["codecs"]:
            rates = [f"{k['gb_per_s']:,.0f} ({k['percent_of_limit']:.0f} %)" for k in c["kernels"]]
            rates += [""] * (5 - len(rates))
            name = c["codec"].replace("|", "\\|")
            yield f"| {tensor} | `{name}` | {c['ratio']:.4f} | {' | '.join(rates)} |"


def graphs_table(top):
    """All ranks on one GPU: time beside what the bytes of all tasks take at the rate of a copy."""
    yield "| schedule | ranks | bytes a rank | codec, type | slices | wire / raw | GiB moved | limit | time | x limit |"
    yield "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|"
    for r in read(top, "graphs-one-gpu.json")["runs"]:
        yield (f"| {r['schedule']} | {r['ranks']} | {r['mib']} MiB | `{r['codec']}`, {r['dtype']} "
               f"| {r['slices']} | {r['wire_over_raw']:.3f} | {r['gib_moved']:.2f} "
               f"| {r['limit_ms']:.3f} ms | {r['ms']:.3f} ms | {r['over_limit']:.2f} |")


def main(top, refresh):
    tables = {"compile": compile_table(top, "compile.json"), "compile-xeon": compile_table(top, "compile-xeon.json"),
              "codec-sample": codec_table(top, "sample"),
              "codec-tensor": codec_table(top, "tensor"),
              "codec-tensor-xeon": codec_table(top, "tensor", "-xeon", ("none", "pack", "quant(8)", "topk(0.01)")),
              "codec-gpu": codec_gpu_table(top, ("pack",), (16, 64, 256, 1024)),
              "codec-gpu-values": codec_gpu_values_table(top, ("grad_f32", "grad_bf16")),
              "allreduce-sockets": collective_table(top, "allreduce-sockets-bf16.json",
                                                    "allreduce-sockets-f32.json")}
    tables["graphs-one-gpu"] = graphs_table(top)
    path = os.path.join(top, "BENCHMARKS.md")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    made = TABLE.sub(lambda m: m.group(1) + "\n".join(tables.pop(m.group(2))) + m.group(4), text)
    if tables:
        print(f"BENCHMARKS.md has no table {', '.join(tables)}")
        return 1
    if made != text and not refresh:
        print("BENCHMARKS.md is not what benchmarks/*.json say; refresh it:\n"
              "  python3 benchmarks/tables.py . --refresh")
        return 1
    if made != text:
        with open(path, "w", encoding="utf-8") as f:
            f.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:] == ["--refresh"]))
