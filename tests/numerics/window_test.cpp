// Ops that count global elements or positions: what ranks compute of parts is, put together, what
// one rank computes of the whole, to the last bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "kernels/tensor_stretches.h"
#include "numerics/harness.h"
#include "numerics/parts.h"

namespace fourfold::numerics {
namespace {

/// A part of a global tensor: its window and its local shape.
struct Part {
  op::TensorWindow window;
  Shape local;
};

/// All parts when dim d is cut into blocks of ceil(size / cuts[d]); the last ones may be padding.
std::vector<Part> parts_of(const Shape& global, const std::vector<std::int64_t>& cuts) {
  std::vector<Part> parts = {{{global, {}}, {}}};
  for (std::size_t dim = 0; dim < global.rank(); ++dim) {
    const std::int64_t local = (global[dim] + cuts[dim] - 1) / cuts[dim];
    std::vector<Part> next;
    for (const Part& part : parts)
      for (std::int64_t i = 0; i < cuts[dim]; ++i) {
        next.push_back(part);
        next.back().window.first.push_back(i * local);
        next.back().local.push_back(local);
      }
    parts = std::move(next);
  }
  return parts;
}

/// The elements of a part by their definition: visit(local, global or -1 in padding).
void for_elements(const Part& part, const std::function<void(std::size_t, std::int64_t)>& visit) {
  for (std::int64_t local = 0; local < part.local.elements(); ++local) {
    std::int64_t rest = local, global = 0, stride = 1;
    bool padding = false;
    for (std::size_t dim = part.local.rank(); dim-- > 0;) {
      const std::int64_t index = part.window.first[dim] + rest % part.local[dim];
      rest /= part.local[dim];
      padding = padding || index >= part.window.global[dim];
      global += index * stride;
      stride *= part.window.global[dim];
    }
    visit(static_cast<std::size_t>(local), padding ? -1 : global);
  }
}

struct Cutting {
  Shape global;
  std::vector<std::int64_t> cuts;
};
const std::vector<Cutting>& cuttings() {
  static const std::vector<Cutting> list = {{{7}, {1}},
                                            {{7}, {2}},
                                            {{10}, {7}},
                                            {{5, 6}, {2, 1}},
                                            {{5, 6}, {1, 4}},
                                            {{6, 9}, {4, 2}},
                                            {{3, 4, 5}, {1, 3, 1}},
                                            {{3, 4, 5}, {2, 1, 3}},
                                            {{3, 4, 5}, {2, 3, 2}},
                                            {{131, 257}, {1, 1}},
                                            {{131, 257}, {1, 2}},
                                            {{131, 257}, {3, 2}}};
  return list;
}

TEST(TensorStretches, walk_every_element_once_and_know_its_global_index) {
  for (const auto& [global, cuts] : cuttings())
    for (const Part& part : parts_of(global, cuts)) {
      const kernels::TensorStretches stretches(part.window, part.local);
      const std::int64_t count = part.local.elements();
      // In pieces, as threads walk: their ends fall anywhere.
      for (const std::int64_t piece : {count, std::int64_t{3}}) {
        std::map<std::size_t, std::int64_t> seen;
        for (std::int64_t begin = 0; begin < count; begin += piece)
          stretches.walk(
              begin, std::min(count, begin + piece),
              [&](std::int64_t local, std::uint64_t first, std::int64_t size) {
                for (std::int64_t i = 0; i < size; ++i)
                  EXPECT_TRUE(seen.emplace(local + i, static_cast<std::int64_t>(first) + i).second);
              },
              [&](std::int64_t local, std::int64_t size) {
                for (std::int64_t i = 0; i < size; ++i)
                  EXPECT_TRUE(seen.emplace(local + i, -1).second);
              });
        std::map<std::size_t, std::int64_t> expected;
        for_elements(part, [&](std::size_t local, std::int64_t index) { expected[local] = index; });
        EXPECT_EQ(seen, expected) << to_string(global) << " part at "
                                  << to_string(part.window.first);
      }
    }
}

TEST(TensorStretches, of_a_whole_tensor_are_one) {
  for (const op::TensorWindow& part :
       {op::TensorWindow{}, op::TensorWindow{{3, 4, 5}, {0, 0, 0}}}) {
    int stretches = 0;
    kernels::TensorStretches(part, {3, 4, 5})
        .walk(
            0, 60, [&](std::int64_t, std::uint64_t, std::int64_t) { ++stretches; },
            [](std::int64_t, std::int64_t) { FAIL() << "nothing is padding"; });
    EXPECT_EQ(stretches, 1);
  }
}

TEST(InitNormal, has_the_bits_of_the_whole_tensor_however_it_is_cut) {
  const RandomStream stream = random_stream("w");
  for (const auto& [global, cuts] : cuttings())
    for (const Backend& backend : backends_of(op::InitNormal{})) {
      const Array whole =
          apply(op::InitNormal{stream, 0.5, global}, backend, {scalar(5)}).values[0];
      std::size_t covered = 0;
      for (const Part& part : parts_of(global, cuts)) {
        const Array got =
            apply(op::InitNormal{stream, 0.5, part.local, part.window}, backend, {scalar(5)})
                .values[0];
        for_elements(part, [&](std::size_t local, std::int64_t index) {
          covered += index >= 0 ? 1U : 0U;
          const double expected = index < 0 ? 0 : whole.data[static_cast<std::size_t>(index)];
          ASSERT_EQ(got.data[local], expected) << to_string(backend) << " " << to_string(global);
        });
      }
      EXPECT_EQ(covered, whole.data.size());
    }
}

std::uint64_t digest(const Array& x, const Backend& backend, const op::TensorWindow& part) {
  const auto bytes = apply(op::Digest{random_stream("w"), part}, backend, {x}).bytes[0];
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

TEST(Digest, of_parts_adds_up_to_that_of_the_whole_tensor) {
  std::vector<Backend> backends = backends_of(op::Digest{});
  backends.insert(backends.end(), {{"reference", DType::i64, 1}, {"vector", DType::i64, 2}});
  for (const auto& [global, cuts] : cuttings())
    for (const Backend& backend : backends) {
      const Array x = integers(global, "x", 1000);
      std::uint64_t total = 0;
      for (const Part& part : parts_of(global, cuts)) {
        Array local = filled(part.local, 77);  // whatever stands in padding does not count
        for_elements(part, [&](std::size_t i, std::int64_t index) {
          if (index >= 0) local.data[i] = x.data[static_cast<std::size_t>(index)];
        });
        total += digest(local, backend, part.window);
      }
      EXPECT_EQ(total, digest(x, backend, {})) << to_string(backend) << " " << to_string(global);
    }
}

/// Samples, time and channels are cut; the numbers of elements in a row are no multiples of 4.
TEST(Dropout, mask_does_not_depend_on_how_any_dim_is_cut) {
  struct DropoutCut {
    Shape global;
    std::vector<std::int64_t> cuts;
  };
  const std::vector<DropoutCut> list = {
      {{4, 6, 10}, {1, 1, 2}}, {{4, 6, 10}, {1, 3, 1}},   {{4, 6, 10}, {2, 2, 5}},
      {{2, 9, 7}, {1, 3, 7}},  {{4, 70, 130}, {1, 1, 2}}, {{4, 70, 130}, {2, 2, 2}},
      {{6, 5}, {3, 1}},        {{6, 5}, {2, 5}},          {{2, 3, 4, 5}, {1, 3, 2, 1}}};
  const RandomStream stream = random_stream("blocks.0.dropout");
  for (const auto& [global, cuts] : list)
    for (const Backend& backend : backends_of(op::Dropout{})) {
      const std::int64_t micro = 2, samples = global[0];
      const Array x = uniform(global, "x", 1, 2);
      const Array whole = apply(op::Dropout{stream, 0.4, {micro, samples, 0}}, backend,
                                {x, scalar(1234), scalar(3)})
                              .values[0];
      for (const Part& part : parts_of(global, cuts)) {
        op::Dropout op{stream, 0.4, {micro, samples, part.window.first[0]}};
        for (std::size_t dim = 1; dim < global.rank(); ++dim) {
          op.part.global.push_back(global[dim]);
          op.part.first.push_back(part.window.first[dim]);
        }
        Array local = filled(part.local, 0);
        for_elements(part, [&](std::size_t i, std::int64_t index) {
          local.data[i] = x.data[static_cast<std::size_t>(index)];
        });
        const Array y = apply(op, backend, {local, scalar(1234), scalar(3)}).values[0];
        for_elements(part, [&](std::size_t i, std::int64_t index) {
          ASSERT_EQ(y.data[i], whole.data[static_cast<std::size_t>(index)])
              << to_string(backend) << " " << to_string(global);
        });
      }
    }
}

TEST(AddPositions, of_a_cut_time_adds_the_rows_of_its_positions) {
  const Array x = uniform({3, 12, 5}, "x"), table = uniform({14, 5}, "table");
  for (const Backend& backend : backends_of(op::AddPositions{})) {
    const Array whole = apply(op::AddPositions{}, backend, {x, table}).values[0];
    for (const std::int64_t ranks : {2, 3, 4, 12}) {
      const std::int64_t local = 12 / ranks;
      Arrays parts;
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        parts.push_back(apply(op::AddPositions{false, rank * local}, backend,
                              {slice(x, 1, rank * local, local), table})
                            .values[0]);
      EXPECT_EQ(concatenated(parts, 1).data, whole.data) << to_string(backend) << " " << ranks;
    }
  }
}

TEST(PositionsGradient, of_a_cut_time_are_terms_of_the_whole_one) {
  const Array y_grad = uniform({3, 12, 5}, "grad"), old = uniform({14, 5}, "old");
  for (const Backend& backend : backends_of(op::PositionsGradient{})) {
    const Array whole = apply(op::PositionsGradient{14}, backend, {y_grad}).values[0];
    const Array added =
        apply(op::PositionsGradient{14, 0, true}, backend, {y_grad}, {old}).values[0];
    for (const std::int64_t ranks : {2, 3, 4, 12}) {
      const std::int64_t local = 12 / ranks;
      Arrays terms;
      Array accumulated = old;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const Array part = slice(y_grad, 1, rank * local, local);
        terms.push_back(apply(op::PositionsGradient{14, rank * local}, backend, {part}).values[0]);
        accumulated =
            apply(op::PositionsGradient{14, rank * local, true}, backend, {part}, {accumulated})
                .values[0];
      }
      EXPECT_EQ(sum(terms).data, whole.data) << to_string(backend) << " " << ranks;
      EXPECT_EQ(accumulated.data, added.data) << to_string(backend) << " " << ranks;
    }
  }
}

TEST(Embedding, of_parts_of_the_table_adds_up_to_the_whole_one) {
  const Array tokens = integers({3, 7}, "tokens", 11), table = uniform({11, 4}, "table"),
              y_grad = uniform({3, 7, 4}, "grad");
  for (const Backend& backend : backends_of(op::Embedding{})) {
    const Array y = apply(op::Embedding{}, backend, {tokens, table}).values[0];
    const Array grad = apply(op::EmbeddingGradient{11}, backend, {tokens, y_grad}).values[0];
    Arrays terms, gradients;
    for (std::int64_t rank = 0; rank < 4; ++rank) {  // the last part has two rows of padding and
      terms.push_back(apply(op::Embedding{rank * 3}, backend,  // no token means them
                            {tokens, slice(table, 0, rank * 3, 3, 0)})
                          .values[0]);
      gradients.push_back(
          apply(op::EmbeddingGradient{3, rank * 3}, backend, {tokens, y_grad}).values[0]);
    }
    EXPECT_EQ(sum(terms).data, y.data) << to_string(backend);
    EXPECT_EQ(slice(concatenated(gradients, 0), 0, 0, 11).data, grad.data) << to_string(backend);
    EXPECT_EQ(slice(gradients[3], 0, 2, 1).data, std::vector<double>(4, 0)) << to_string(backend);
  }
}

}  // namespace
}  // namespace fourfold::numerics
