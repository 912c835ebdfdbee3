"""The manifests of launch/ are what their controllers read: no field is misspelt, all have the type that they must."""

import pytest
import yaml
from benchkit.sweep import resume
from kubeflow_trainer_api import models

from tests.support.cli import ROOT

MODELS = {
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}
DOCUMENTS = [
    document
    for path in sorted((ROOT / "launch" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
def test_manifest_is_what_its_controller_reads(document):
    assert MODELS[document["kind"]].from_dict(document).to_dict() == document  # unknown fields would be gone


def test_every_kind_has_a_manifest():
    assert {document["kind"] for document in DOCUMENTS} == set(MODELS)


def test_all_run_the_same_command():
    jobset, _, trainjob = DOCUMENTS
    [job] = jobset["spec"]["replicatedJobs"]
    [container] = job["template"]["spec"]["template"]["spec"]["containers"]
    trainer = trainjob["spec"]["trainer"]
    rented = yaml.safe_load((ROOT / "launch" / "skypilot.yaml").read_text())
    line = container["command"] + container["args"]
    assert trainer["command"] + trainer["args"] == ["torchrun", "--no-python", *line]
    assert rented["run"].split() == line
    assert resume.parse(line[1:])[0] == "+suite=allreduce"  # it may begin where the volume holds nothing
