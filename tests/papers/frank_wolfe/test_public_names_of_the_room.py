"""What `sottovoce.papers.frank_wolfe` offers."""

from sottovoce.papers import frank_wolfe

NAMES = [
    "Block",
    "BlockFrankWolfeResult",
    "Box",
    "DistributedSampling",
    "ElementarySampling",
    "ExplicitSampling",
    "GeneralizedLinear",
    "ImportanceSampling",
    "IndependentSampling",
    "L1Ball",
    "L2Ball",
    "LeastSquares",
    "NiceSampling",
    "Objective",
    "PROTOCOL",
    "Position",
    "ProductDomain",
    "PublishedBallPlan",
    "Quadratic",
    "Sampling",
    "Simplex",
    "Theorem3",
    "UniformSerialSampling",
    "balls_curvature",
    "block_curvatures",
    "curvature_bound",
    "expected_curvature",
    "expected_set_curvature",
    "global_curvature",
    "inexactness",
    "minimize",
    "proposition_1_bound",
    "proposition_4_bound",
    "serial_bound",
    "theorem_1_bound",
    "theorem_3",
    "weight_cap",
]


def test_public_names_of_the_room():
    assert sorted(frank_wolfe.__all__) == NAMES
    for name in NAMES:
        assert getattr(frank_wolfe, name).__doc__
