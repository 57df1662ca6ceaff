// The memory of programs over residues: elements stand at addresses, whatever their size.
#include "verify/residue_memory.h"

#include <gtest/gtest.h>

#include "verify/faults.h"
#include "verify/whole_index.h"

namespace fourfold::verify {
namespace {

using Words = std::vector<op::Residue>;

/// A program with buffers of several types at one address, and others that persist.
class ResidueMemories : public testing::Test {
 protected:
  ResidueMemories() {
    const Mesh mesh{"main", {{"x", 1}}, {Rank(0)}};
    Builder b(op::ProgramKind::train, Rank(0), mesh, {"math"});
    b.blocks();
    b.buffer("kept", {2}, {BufferRole::parameter, DType::f32});
    b.buffer("doubles", {4}, {BufferRole::activation, DType::f64});
    b.buffer_over("doubles", "floats", {8}, {BufferRole::activation, DType::f32});
    b.buffer_over("doubles", "bytes", {32}, {BufferRole::feed, DType::u8});
    program = b.finish();
    bundle = {{program}, program.persistent_bytes, program.transient_bytes};
    memory.emplace(bundle, false);
  }

  void store(const Slice& slice, const Words& words) {
    const DType type = program.buffer(slice.buffer).dtype;
    const Cells cells{words, std::vector<ElementKind>(words.size(), element_kind(type)), {}};
    memory->store(program, slice, type, cells);
  }
  /// The words of a slice; none of 0 but those that are no element.
  Words load(const Slice& slice) {
    Cells cells;
    memory->load(program, slice, program.buffer(slice.buffer).dtype, cells);
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells.kinds[i] == no_element) cells.words[i] = 0;
    return cells.words;
  }
  Slice whole(std::string_view name) { return slice_of(program, name); }
  Slice bytes_of(std::string_view name, std::int64_t offset, std::int64_t bytes) {
    return {*program.find_buffer(name), offset, 1, bytes, 0};
  }

  Program program;
  Bundle bundle;
  std::optional<ResidueMemory> memory;
};

TEST_F(ResidueMemories, elements_are_read_as_they_were_written) {
  EXPECT_EQ(load(whole("doubles")), Words({0, 0, 0, 0}));
  store(whole("doubles"), {1, 2, 3, op::not_finite});
  EXPECT_EQ(load(whole("doubles")), Words({1, 2, 3, op::not_finite}));
  EXPECT_EQ(load(bytes_of("doubles", 8, 16)), Words({2, 3}));
  const Slice rows{*program.find_buffer("doubles"), 0, 2, 8, 16};
  EXPECT_EQ(load(rows), Words({1, 3}));
  store(rows, {5, 6});
  EXPECT_EQ(load(whole("doubles")), Words({5, 2, 6, op::not_finite}));
}

TEST_F(ResidueMemories, an_element_of_another_size_is_none) {
  store(whole("doubles"), {1, 2, 3, 4});
  EXPECT_EQ(load(whole("floats")), Words(8, 0));
  EXPECT_EQ(load(whole("bytes")), Words(32, 0));
}

TEST_F(ResidueMemories, an_element_is_gone_when_a_byte_of_it_is_overwritten) {
  store(whole("doubles"), {1, 2, 3, 4});
  store(bytes_of("floats", 12, 4), {9});
  EXPECT_EQ(load(whole("doubles")), Words({1, 0, 3, 4}));
  EXPECT_EQ(load(whole("floats")), Words({0, 0, 0, 9, 0, 0, 0, 0}));
  store(bytes_of("bytes", 13, 1), {7});
  EXPECT_EQ(load(whole("floats")), Words(8, 0));
  EXPECT_EQ(load(bytes_of("bytes", 12, 3)), Words({0, 7, 0}));
  store(bytes_of("doubles", 8, 8), {5});
  EXPECT_EQ(load(bytes_of("bytes", 12, 3)), Words({0, 0, 0}));
  EXPECT_EQ(load(whole("doubles")), Words({1, 5, 3, 4}));
}

TEST_F(ResidueMemories, what_persists_is_there_in_the_next_program) {
  store(whole("kept"), {1, 2});
  store(whole("doubles"), {1, 2, 3, 4});
  memory->begin(1);
  EXPECT_EQ(load(whole("kept")), Words({1, 2}));
  EXPECT_EQ(load(whole("doubles")), Words({0, 0, 0, 0}));
}

TEST_F(ResidueMemories, steps_of_one_parity_see_one_copy_of_a_block) {
  store(bytes_of("result", 8, 8), {3});
  memory->begin(1);
  EXPECT_EQ(load(bytes_of("result", 8, 8)), Words({0}));
  store(bytes_of("result", 8, 8), {4});
  memory->begin(2);
  EXPECT_EQ(load(bytes_of("result", 8, 8)), Words({3}));
  memory->begin(3);
  EXPECT_EQ(load(bytes_of("result", 8, 8)), Words({4}));
}

// --- whole_index.h

/// The index in the whole tensor of each element that a rank has; -1 of padding.
std::vector<std::int64_t> indices(Builder& b, std::string_view name) {
  const Program program = b.finish();
  Claims claims(program);
  std::vector<std::int64_t> list;
  for (const IndexRun& run : index_runs(claims, *program.find_buffer(name))) {
    EXPECT_EQ(run.begin, list.size());
    for (std::size_t i = 0; i < run.count; ++i)
      list.push_back(static_cast<std::int64_t>(run.index + i));
    list.insert(list.end(), run.padding, -1);
  }
  return list;
}

class Indices : public testing::Test {
 protected:
  const Mesh mesh{"main", {{"y", 2}, {"x", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  Builder on(std::size_t rank) { return {op::ProgramKind::train, Rank(rank), mesh, {"math"}}; }
  const Kind kind{BufferRole::activation, DType::f32};
};

TEST_F(Indices, of_a_scalar) {
  Builder b = on(3);
  b.buffer("a", {}, kind);
  EXPECT_EQ(indices(b, "a"), std::vector<std::int64_t>({0}));
}
TEST_F(Indices, of_a_tensor_that_is_cut_in_both_dims) {
  Builder b = on(1);
  b.buffer("a", {4, 6}, kind, {"y", "x"});
  EXPECT_EQ(indices(b, "a"), std::vector<std::int64_t>({3, 4, 5, 9, 10, 11}));
}
TEST_F(Indices, of_padding_are_none) {
  Builder b = on(3);
  b.buffer("a", {3, 3}, kind, {"y", "x"});
  EXPECT_EQ(indices(b, "a"), std::vector<std::int64_t>({8, -1, -1, -1}));
}
TEST_F(Indices, of_a_blocked_tensor_are_in_the_order_of_memory) {
  Builder b = on(0);
  b.blocked("a", {2, 3}, kind, {}, 1, "x");
  EXPECT_EQ(indices(b, "a"), std::vector<std::int64_t>({0, 1, 3, 4, 2, -1, 5, -1}));
}
TEST_F(Indices, of_blocks_of_rows) {
  Builder b = on(2);
  b.blocked("a", {6, 2}, kind, {"y", ""}, 0, "x");
  EXPECT_EQ(indices(b, "a"), std::vector<std::int64_t>({6, 7, 8, 9, 10, 11, -1, -1}));
}

}  // namespace
}  // namespace fourfold::verify
