// op::propagate: states of outputs from states of reads.
#include <gtest/gtest.h>

#include "op/rule.h"
#include "op/table.h"

namespace fourfold::op {
namespace {

using Linear = FactorRule::Linear;
using Shardings = std::vector<Sharding>;

constexpr AxisId x(0), y(1), z(2);

/// A sharding of whole blocks, one list of axes per dim.
Sharding cut(const std::vector<std::vector<AxisId>>& dims,
             const std::vector<AxisId>& partial = {}) {
  Sharding result;
  for (const auto& axes : dims) {
    auto& cuts = result.dims.emplace_back();
    for (const AxisId axis : axes) cuts.push_back({axis, std::nullopt});
  }
  for (const AxisId axis : partial) result.partial.push_back({axis, Reduction::sum});
  return result;
}
Sharding partial(const std::vector<AxisId>& axes) {
  return cut({}, axes);
}

const FactorRule matmul{{"mk", "kn", "mn"}, "", Linear::one};

TEST(Propagate, CutRowsOfAProductStayCut) {
  const auto result = propagate(matmul, Shardings{cut({{z}, {}}), cut({{}, {x}})}, Shardings{{}});
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.outputs, Shardings{cut({{z}, {x}})});
}

TEST(Propagate, ACutContractedDimMakesThePartialSum) {
  const auto result =
      propagate(matmul, Shardings{cut({{z}, {y, x}}), cut({{y, x}, {}})}, Shardings{{}});
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.outputs, Shardings{cut({{z}, {}}, {x, y})});
}

TEST(Propagate, UncutReadsGiveAnUncutOutputWithoutDims) {
  EXPECT_EQ(propagate(matmul, Shardings{{}, {}}, Shardings{{}}).outputs, Shardings{Sharding{}});
}

TEST(Propagate, AContractedDimCutOnOneSideOnlyIsAProblem) {
  EXPECT_NE(propagate(matmul, Shardings{cut({{}, {x}}), {}}, Shardings{{}}).problem, "");
  EXPECT_NE(propagate(matmul, Shardings{cut({{}, {x}}), cut({{y}, {}})}, Shardings{{}}).problem,
            "");
}

TEST(Propagate, CutsOfAnotherOrderOrStrideAreAProblem) {
  EXPECT_NE(
      propagate(matmul, Shardings{cut({{}, {x, y}}), cut({{y, x}, {}})}, Shardings{{}}).problem,
      "");
  Sharding strided = cut({{x}, {}});
  strided.dims[0][0].stride = 1;
  EXPECT_NE(propagate(matmul, Shardings{cut({{}, {x}}), strided}, Shardings{{}}).problem, "");
}

TEST(Propagate, AnAxisMayCutOneFactorOnly) {
  const auto result = propagate(matmul, Shardings{cut({{x}, {}}), cut({{}, {x}})}, Shardings{{}});
  EXPECT_NE(result.problem.find("already in use"), std::string::npos) << result.problem;
}

TEST(Propagate, AnAxisMayNotCutAndBePartial) {
  const auto result = propagate(matmul, Shardings{cut({{x}, {}}), partial({x})}, Shardings{{}});
  EXPECT_NE(result.problem.find("already in use"), std::string::npos) << result.problem;
}

TEST(Propagate, AProductIsLinearInOneReadAtATime) {
  EXPECT_EQ(propagate(matmul, Shardings{partial({x}), {}}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_EQ(propagate(matmul, Shardings{{}, partial({x})}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_EQ(propagate(matmul, Shardings{partial({x}), partial({y})}, Shardings{{}}).outputs,
            Shardings{partial({x, y})});
  EXPECT_NE(propagate(matmul, Shardings{partial({x}), partial({x})}, Shardings{{}}).problem, "");
}

TEST(Propagate, ASumIsLinearInAllReadsTogether) {
  const FactorRule add{{"a", "a", "a"}, "", Linear::all};
  EXPECT_EQ(propagate(add, Shardings{partial({x}), partial({x})}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_NE(propagate(add, Shardings{partial({x}), {}}, Shardings{{}}).problem, "");
  EXPECT_NE(propagate(add, Shardings{partial({x}), partial({y})}, Shardings{{}}).problem, "");
}

TEST(Propagate, AnOpLinearInItsFirstReadTakesNoOtherPartialOne) {
  const FactorRule dropout{{"a", "", "a"}, "", Linear::first};
  EXPECT_EQ(propagate(dropout, Shardings{partial({x}), {}}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_NE(propagate(dropout, Shardings{{}, partial({x})}, Shardings{{}}).problem, "");
}

TEST(Propagate, AnOpThatIsNotLinearTakesNoPartialSum) {
  const FactorRule gelu{{"a", "a"}, "", Linear::no};
  EXPECT_NE(propagate(gelu, Shardings{partial({x})}, Shardings{{}}).problem, "");
  EXPECT_EQ(propagate(gelu, Shardings{cut({{x}})}, Shardings{{}}).outputs, Shardings{cut({{x}})});
}

TEST(Propagate, NoOpTakesAPartialMaximum) {
  Sharding maximum;
  maximum.partial = {{x, Reduction::max}};
  EXPECT_NE(propagate(matmul, Shardings{maximum, {}}, Shardings{{}}).problem, "");
}

TEST(Propagate, AWholeFactorMayNotBeCut) {
  const FactorRule norm{{"rc", "rc"}, "c", Linear::no};
  EXPECT_NE(propagate(norm, Shardings{cut({{}, {x}})}, Shardings{{}}).problem, "");
  EXPECT_EQ(propagate(norm, Shardings{cut({{x}, {}})}, Shardings{{}}).outputs,
            Shardings{cut({{x}, {}})});
}

TEST(Propagate, AFactorOfOutputsOnlyFollowsTheClaim) {
  const FactorRule rule{{"t", "tc", "vc"}, "", Linear::one};
  const auto result =
      propagate(rule, Shardings{cut({{z}}), cut({{z}, {}})}, Shardings{cut({{x}, {}})});
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.outputs, Shardings{cut({{x}, {}}, {z})});
  const FactorRule whole{{"t", "tc", "vc"}, "v", Linear::one};
  EXPECT_NE(propagate(whole, Shardings{{}, {}}, Shardings{cut({{x}, {}})}).problem, "");
}

TEST(Propagate, AnOpWithoutReadsTakesTheMeshOfItsOutput) {
  Sharding claim = cut({{x}});
  claim.mesh = MeshId(1);
  EXPECT_EQ(propagate({{"a"}, "", Linear::no}, Shardings{}, Shardings{claim}).outputs,
            Shardings{claim});
}

TEST(Propagate, ReadsOfDifferentMeshesAreAProblem) {
  Sharding other;
  other.mesh = MeshId(1);
  EXPECT_NE(propagate(matmul, Shardings{{}, other}, Shardings{{}}).problem, "");
}

// --- rules of rows

std::vector<Sharding> states(const Op& op, const std::vector<Shape>& shapes, const Shardings& reads,
                             std::size_t outputs) {
  const auto result = propagate(factors(op, shapes), reads, Shardings(outputs));
  EXPECT_EQ(result.problem, "") << name(op);
  return result.outputs;
}

TEST(FactorRules, AWeightGradientIsPartialOnTheAxesThatCutTheBatch) {
  const Matmul weight_gradient{2, 2, true, false, false};
  const std::vector<Shape> shapes = {{4, 8, 16}, {4, 8, 32}};
  EXPECT_EQ(states(weight_gradient, shapes, {cut({{z}, {}, {y}}), cut({{z}, {}, {x}})}, 1),
            Shardings{cut({{y}, {x}}, {z})});
}

TEST(FactorRules, ABiasGradientIsPartialOnTheAxesThatCutTheBatch) {
  EXPECT_EQ(states(BiasGradient{2}, {{4, 8, 16}}, {cut({{z, y}, {}, {x}})}, 1),
            Shardings{cut({{x}}, {y, z})});
}

TEST(FactorRules, AnEmbeddingOfACutVocabularyIsAPartialSum) {
  EXPECT_EQ(states(Embedding{}, {{4, 8}, {100, 16}}, {cut({{z}, {}}), cut({{x}, {}})}, 1),
            Shardings{cut({{z}, {}, {}}, {x})});
}

TEST(FactorRules, ALossSumIsPartialOnTheAxesThatCutTheBatch) {
  EXPECT_EQ(states(LossSum{}, {{4, 8}, {4, 8}}, {cut({{z}, {}}), cut({{z}, {}})}, 2),
            (Shardings{partial({z}), partial({z})}));
}

TEST(FactorRules, AttentionKeepsCutsOfSamplesAndHeads) {
  EXPECT_EQ(states(Attention{}, {{4, 8, 3, 2, 5}}, {cut({{z}, {}, {}, {x}, {}})}, 2),
            (Shardings{cut({{z}, {}, {x}, {}}), cut({{z}, {x}, {}})}));
}

}  // namespace
}  // namespace fourfold::op
