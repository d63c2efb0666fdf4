"""AWS's own client against `plimsoll serve`: the flow of its notebooks, paginators, tags and errors.

Arguments: the server's URL and the folder that stands for S3. Keys come from the environment, as clients expect them.
"""

import json
import pathlib
import sys
import tarfile
import time

import boto3
from botocore.exceptions import ClientError

URL, S3 = sys.argv[1], pathlib.Path(sys.argv[2])
ROLE = "arn:aws:iam::123456789012:role/Bench"
client = boto3.client("sagemaker", endpoint_url=URL, region_name="us-east-1")


def refused(code, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error
        return error
    raise AssertionError(f"{code} was expected of {call.__name__}")


def workload(**parameters):
    base = {"tokenizer": "any/thing", "streaming": True, "prompt_input_tokens_mean": 64, "output_tokens_mean": 4}
    spec = {"benchmark": {"type": "aiperf"}, "parameters": {**base, **parameters}}
    return {"WorkloadSpec": {"Inline": json.dumps(spec)}}


def job(name):
    client.create_ai_benchmark_job(
        AIBenchmarkJobName=name,
        BenchmarkTarget={"Endpoint": {"Identifier": "demo"}},
        OutputConfig={"S3OutputLocation": f"s3://bucket/concurrency-sweeps/{name}/"},
        AIWorkloadConfigIdentifier=name,
        RoleArn=ROLE,
    )
    deadline = time.monotonic() + 60
    while True:
        told = client.describe_ai_benchmark_job(AIBenchmarkJobName=name)
        if told["AIBenchmarkJobStatus"] in ("Completed", "Failed", "Stopped"):
            break
        assert time.monotonic() < deadline, told
        time.sleep(0.2)
    assert told["AIBenchmarkJobStatus"] == "Completed", told
    assert told["CreationTime"] <= told["StartTime"] <= told["EndTime"], told
    place = S3 / told["OutputConfig"]["S3OutputLocation"].removeprefix("s3://")
    return told, tarfile.open(place / "output/output.tar.gz")


client.create_ai_workload_config(
    AIWorkloadConfigName="list",
    AIWorkloadConfigs=workload(concurrency=[2, 4], benchmark_duration=1),
    Tags=[{"Key": "team", "Value": "capacity"}],
)
told, archive = job("list")
sweep = json.load(archive.extractfile("sweep_aggregate/profile_export_aiperf_sweep.json"))
levels = [combination["parameters"]["concurrency"] for combination in sweep["per_combination_metrics"]]
assert levels == [2, 4], levels

search = {"search_recipe": "max-concurrency-under-sla", "e2e_sla_ms": 60000, "search_stat": "p50"}
client.create_ai_workload_config(
    AIWorkloadConfigName="search",
    AIWorkloadConfigs=workload(**search, concurrency_min=2, concurrency_max=6, search_max_iterations=3, benchmark_duration=1),
)
_, archive = job("search")
history = json.load(archive.extractfile("search_history.json"))
assert history["boundary_summary"]["feasible_max"]["value"] == 6, history["boundary_summary"]

arn = told["AIBenchmarkJobArn"]
client.add_tags(ResourceArn=arn, Tags=[{"Key": "k", "Value": "v"}])
assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "v"}]
client.delete_tags(ResourceArn=arn, TagKeys=["k"])
assert client.list_tags(ResourceArn=arn)["Tags"] == []

pages = client.get_paginator("list_ai_benchmark_jobs").paginate(
    StatusEquals="Completed", SortBy="Name", SortOrder="Ascending", PaginationConfig={"PageSize": 1}
)
names = [item["AIBenchmarkJobName"] for page in pages for item in page["AIBenchmarkJobs"]]
assert names == ["list", "search"], names

refused("ValidationException", client.stop_ai_benchmark_job, AIBenchmarkJobName="list")
refused("ValidationException", client.create_ai_workload_config, AIWorkloadConfigName="x" * 64)
taken = refused("ResourceInUse", client.create_ai_workload_config, AIWorkloadConfigName="list")
assert isinstance(taken, client.exceptions.ResourceInUse) and taken.response["Message"], taken.response
stranger = boto3.client("sagemaker", endpoint_url=URL, region_name="us-east-1", aws_secret_access_key="wrong", aws_access_key_id="x")
refused("AccessDeniedException", stranger.list_ai_benchmark_jobs)

client.delete_ai_benchmark_job(AIBenchmarkJobName="list")
client.delete_ai_workload_config(AIWorkloadConfigName="list")
refused("ResourceNotFound", client.describe_ai_benchmark_job, AIBenchmarkJobName="list")
print("all as expected")
