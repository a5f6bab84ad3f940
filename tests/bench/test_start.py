"""What a short run imports: each of these takes as long as some rounds, and none is needed for one on digits."""

import pytest

from tests.running import printed

HEAVY = (
    *("sklearn", "scipy", "pandas", "matplotlib", "plotly", "PIL", "rich", "optuna", "ray", "torchvision"),
    *("torch._dynamo", "torch._inductor", "torch.onnx", "sympy"),
)


@pytest.mark.parametrize("logger", ["none", "wandb"])
def test_a_run_on_digits_imports_nothing_heavy(logger):
    code = (
        "import sys; from bench.main import command;"
        f"code = command(['dataset=digits', 'rounds=2', 'logger={logger}']);"
        f"print('loaded', *sorted({set(HEAVY)} & set(sys.modules)), 'code', code);"
        "print('there', 'pytorch_lightning' in sys.modules, 'wandb' in sys.modules)"
    )
    assert printed("-c", code).splitlines()[-2:] == ["loaded code 0", f"there True {logger == 'wandb'}"]


def test_an_error_imports_no_more_than_it_says():
    code = (
        "import sys; from bench.main import command; code = command(['algo=nosuch']);"
        f"print(*sorted({{*{HEAVY}, 'pytorch_lightning', 'wandb', 'bench.run'}} & set(sys.modules)), code)"
    )
    assert printed("-c", code) == "2\n"


@pytest.mark.slow
def test_what_lightning_does_without_is_there_for_others():
    code = (
        "from bench.learning.lightning import pl; from datamodules._torchvision import torchvision;"
        "import matplotlib, PIL, rich, scipy.stats, torch;"
        "from pytorch_lightning.utilities.compile import from_compiled; from torch.nn import Linear;"
        "from lightning_fabric.wrappers import _unwrap_compiled as unwrap;"
        "from lightning_utilities.core.imports import RequirementCache, package_available;"
        "compiled = torch.compile(Linear(1, 1)); compiled._compile_kwargs = {'a': 1};"
        "print(type(unwrap(compiled)[0]).__name__, unwrap(Linear(1, 1))[1], unwrap(compiled)[1],"
        "package_available('torchvision'), bool(RequirementCache('torchvision')))"
    )
    assert printed("-c", code) == "Linear None {'a': 1} True True\n"


@pytest.mark.slow
def test_a_lightningmodule_in_a_file_of_ones_own_has_all_of_torchmetrics(tmp_path):
    (tmp_path / "net.py").write_text(
        "import pytorch_lightning as pl, torch, torchmetrics\n"
        "from torchmetrics.utilities import imports\n"
        "assert imports._MATPLOTLIB_AVAILABLE and imports._TORCHVISION_AVAILABLE\n"
        "class Net(pl.LightningModule):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(shape[0], classes)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x)\n"
        "    def training_step(self, batch, batch_idx):\n"
        "        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])\n"
    )
    words = ["dataset=digits", "rounds=1", "logger=none", "model=custom", "model.target=./net.py:Net"]
    assert "accuracy" in printed("bench.py", *words)
