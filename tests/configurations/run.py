#!/usr/bin/env python3
"""run.py TP_PLAN - the configuration files that launch writes, read by the parsers that the frameworks use: tomllib
(torchtitan) and PyYAML's safe loader (nanotron, accelerate). Skipped where Python has not both."""
import os
import subprocess
import sys
import tempfile

try:
    import tomllib

    import yaml
except ImportError as error:
    print("1..0 # SKIP", error)
    sys.exit(0)

JOB = ["--model=llama3.1-8b", "--cluster=dgx-h100", "--nodes=2", "--seq-length=8192", "--global-batch-size=64"]


def launch(framework, strategy, name, *options):
    """The text of the file `name` that is written for the strategy."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.argv[1], "launch", *JOB, "--framework=" + framework, "--strategy=" + strategy, *options]
        subprocess.run([*command, "--output=" + folder], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read()


def wrong_values(document, expected):
    """What is not as expected, "a.b" being document["a"]["b"]; values of another type are wrong too."""
    wrong = []
    for path, value in expected.items():
        found = document
        for part in path.split("."):
            found = found[int(part)] if isinstance(found, list) else found.get(part)
        if found != value or type(found) is not type(value):
            wrong.append(f"{path} is {found!r}, not {value!r}")
    return wrong


# 16 GPUs: dp 4 * tp 2 * pp 2; 64 sequences are 16 micro-batches of 1 on each of 4 replicas.
CASES = {
    "torchtitan": (
        lambda: tomllib.loads(launch("torchtitan", "tp=2,pp=2,dp=4,mbs=1,zero=3,sp=1,recompute=full", "torchtitan.toml")),
        {
            "model.name": "llama3",
            "model.flavor": "8B",
            "training.local_batch_size": 16,
            "training.global_batch_size": 64,
            "training.seq_len": 8192,
            "parallelism.data_parallel_shard_degree": 4,
            "parallelism.tensor_parallel_degree": 2,
            "parallelism.pipeline_parallel_degree": 2,
            "parallelism.pipeline_parallel_first_stage_less_layers": 0,
            "activation_checkpoint.mode": "full",
            "compile.enable": True,
        },
    ),
    "nanotron": (
        lambda: yaml.safe_load(launch("nanotron", "tp=2,pp=2,dp=4,mbs=1,sp=1,recompute=full", "nanotron.yaml")),
        {
            "parallelism.dp": 4,
            "parallelism.pp_engine": "1f1b",
            "parallelism.tp_mode": "REDUCE_SCATTER",
            "parallelism.recompute_layer": True,
            "tokens.batch_accumulation_per_replica": 16,
            "optimizer.zero_stage": 0,
            "optimizer.optimizer_factory.adam_eps": 1e-8,
            "model.model_config.rope_theta": 500000.0,
            "model.model_config.num_key_value_heads": 8,
            "data_stages.0.start_training_step": 1,
            "data_stages.0.data.seed": 42,
        },
    ),
    "accelerate, version 1": (
        lambda: yaml.safe_load(launch("accelerate", "dp=16,mbs=1,zero=3,reshard=0,shard=8,recompute=full", "accelerate.yaml")),
        {
            "compute_environment": "LOCAL_MACHINE",
            "distributed_type": "FSDP",
            "mixed_precision": "bf16",
            "num_machines": 2,
            "num_processes": 16,
            "fsdp_config.fsdp_version": 1,
            "fsdp_config.fsdp_sharding_strategy": "HYBRID_SHARD_ZERO2",
            "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_config.fsdp_activation_checkpointing": True,
            "fsdp_config.fsdp_offload_params": False,
        },
    ),
    # 16 GPUs: 2 replicas * 2 shards * cp 2 * tp 2; a model is sharded over 4 ranks.
    "accelerate, version 2": (
        lambda: yaml.safe_load(
            launch("accelerate", "tp=2,cp=2,dp=4,mbs=1,zero=3,shard=4,recompute=full", "accelerate.yaml", "--engine=fsdp2")
        ),
        {
            "fsdp_config.fsdp_version": 2,
            "fsdp_config.fsdp_reshard_after_forward": "true",
            "fsdp_config.fsdp_activation_checkpointing": True,
            "parallelism_config.parallelism_config_dp_replicate_size": 2,
            "parallelism_config.parallelism_config_dp_shard_size": 2,
            "parallelism_config.parallelism_config_tp_size": 2,
            "parallelism_config.parallelism_config_cp_size": 2,
            "parallelism_config.parallelism_config_cp_comm_strategy": "alltoall",
        },
    ),
}

print(f"1..{len(CASES)}")
failed = False
for number, (name, (read, expected)) in enumerate(CASES.items(), 1):
    problems = wrong_values(read(), expected)
    failed = failed or bool(problems)
    print(f"{'not ok' if problems else 'ok'} {number} - {name}")
    for problem in problems:
        print("#", problem)
sys.exit(1 if failed else 0)
