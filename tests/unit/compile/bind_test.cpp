// From one rank's programs to another's: nothing of the old rank is left.
#include "program/bind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::compile {
namespace {

using program::Bundle;
using program::Program;

/// Everything that depends on the rank: dropout, padding, heads, samples, parts of an update.
GridSetup full_setup(bool shard_states) {
  GridSetup setup;
  setup.gpt.dropout = 0.1;
  setup.writes = model::Writes::samples;
  setup.plan.shard_states = shard_states;
  setup.set_grid({.x = 2, .y = 2, .z = 2, .data = 2});
  return setup;
}

std::vector<Bundle> bundles_of_all_ranks(const GridSetup& setup) {
  std::vector<Bundle> bundles;
  const program::Job job = setup.job();
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    bundles.push_back(program::bundle_of(job, Rank(rank)));
  return bundles;
}

/// Coordinates of a rank of the default order: x varies fastest, then y, z, data.
struct Place {
  std::int64_t x, y, z, data;
};
Place place_of(std::size_t rank) {
  const auto bit = [&](std::size_t i) { return static_cast<std::int64_t>(rank >> i & 1U); };
  return {bit(0), bit(1), bit(2), bit(3)};
}

TEST(Bind, gives_the_bundle_of_a_rank_from_that_of_any_other_and_in_any_order) {
  for (const bool shard_states : {false, true}) {
    const auto compiled = bundles_of_all_ranks(full_setup(shard_states));
    std::size_t rebound = 0;
    for (const Bundle& first : compiled) {
      Bundle bundle = first;
      for (std::size_t rank = compiled.size(); rank-- > 0; ++rebound) {
        program::bind(bundle, Rank(rank));
        ASSERT_EQ(bundle, compiled[rank]) << rank;
      }
    }
    EXPECT_EQ(rebound, 256U);
  }
}

TEST(Bind, no_two_ranks_have_the_same_programs) {
  const auto compiled = bundles_of_all_ranks(full_setup(false));
  for (std::size_t a = 0; a < compiled.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      Program other = compiled[b].at(op::ProgramKind::train);
      other.rank = compiled[a].at(op::ProgramKind::train).rank;
      EXPECT_NE(compiled[a].at(op::ProgramKind::train), other) << a << " and " << b;
    }
}

// --- members of groups, by hand

Program program_on(const Mesh& mesh) {
  Program program;
  program.meshes = {mesh};
  program.world = 100;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    program.groups.push_back({mesh.axes[axis].name, MeshId(0), {AxisId(axis)}, {}});
  return program;
}

std::vector<std::vector<std::size_t>> members(const Program& program) {
  std::vector<std::vector<std::size_t>> list;
  for (const program::Group& group : program.groups) {
    auto& ranks = list.emplace_back();
    for (const Rank rank : group.members) ranks.push_back(rank.index());
  }
  return list;
}

Mesh mesh_2x3x2(std::size_t first_rank) {
  Mesh mesh{"main", {{"z", 2}, {"y", 3}, {"x", 2}}, {}};
  for (std::size_t i = 0; i < 12; ++i) mesh.ranks.push_back(Rank(first_rank + i));
  return mesh;
}

TEST(Bind, members_of_a_group_share_all_other_coordinates) {
  // z 0:  0 1 | 2 3 | 4 5      z 1:  6 7 | 8 9 | 10 11      (x within, y between bars)
  Program program = program_on(mesh_2x3x2(0));
  program::bind(program, Rank(std::size_t{0}));
  EXPECT_EQ(members(program), (std::vector<std::vector<std::size_t>>{{0, 6}, {0, 2, 4}, {0, 1}}));
  program::bind(program, Rank(std::size_t{9}));
  EXPECT_EQ(members(program), (std::vector<std::vector<std::size_t>>{{3, 9}, {7, 9, 11}, {8, 9}}));
  program::bind(program, Rank(std::size_t{4}));
  EXPECT_EQ(members(program), (std::vector<std::vector<std::size_t>>{{4, 10}, {0, 2, 4}, {4, 5}}));
}

TEST(Bind, members_are_the_ranks_that_the_mesh_names_in_its_order) {
  Program program = program_on(mesh_2x3x2(40));
  program::bind(program, Rank(std::size_t{49}));
  EXPECT_EQ(members(program),
            (std::vector<std::vector<std::size_t>>{{43, 49}, {47, 49, 51}, {48, 49}}));
  Mesh reversed = mesh_2x3x2(0);
  reversed.ranks = {};
  for (std::size_t rank = 12; rank-- > 0;) reversed.ranks.push_back(Rank(rank));
  program = program_on(reversed);
  program::bind(program, Rank(std::size_t{2}));  // stands where 9 stood
  EXPECT_EQ(members(program), (std::vector<std::vector<std::size_t>>{{8, 2}, {4, 2, 0}, {3, 2}}));
}

TEST(Bind, a_rank_of_no_mesh_is_refused) {
  Program program = program_on(mesh_2x3x2(0));
  EXPECT_THROW(program::bind(program, Rank(std::size_t{12})), InternalError);
}

// --- which part of a tensor an op sees

TEST(Bind, samples_are_numbered_over_data_and_z_and_heads_over_x_and_y) {
  const auto compiled = bundles_of_all_ranks(full_setup(false));
  for (std::size_t rank = 0; rank < compiled.size(); ++rank) {
    const Place at = place_of(rank);
    const Program& train = compiled[rank].at(op::ProgramKind::train);
    EXPECT_EQ(train.feeds.samples, 4);
    EXPECT_EQ(train.feeds.count, 1);
    EXPECT_EQ(train.feeds.first, 2 * at.data + at.z) << rank;
    std::size_t cores = 0;
    for (const program::Instruction& i : train.instructions) {
      const auto* compute = std::get_if<program::Compute>(&i.what);
      const auto* core = compute == nullptr ? nullptr : compute->op.get_if<op::Attention>();
      if (core == nullptr) continue;
      ++cores;
      EXPECT_EQ(core->first_head, 4 * at.x + 2 * at.y) << rank;
      EXPECT_EQ(core->window.first, 2 * at.data + at.z) << rank;
    }
    EXPECT_EQ(cores, 4U) << "two layers, two micro-batches";
  }
}

TEST(Bind, rows_of_a_padded_vocabulary_are_numbered_over_x_and_y_and_padding_is_told) {
  const auto compiled = bundles_of_all_ranks(full_setup(false));
  for (std::size_t rank = 0; rank < compiled.size(); ++rank) {
    const Place at = place_of(rank);
    const std::int64_t first = 20 * at.x + 10 * at.y;  // 37 rows in four parts of 10
    for (const program::Instruction& i : compiled[rank].at(op::ProgramKind::train).instructions) {
      const auto* compute = std::get_if<program::Compute>(&i.what);
      if (compute == nullptr) continue;
      if (const auto* row = compute->op.get_if<op::Embedding>()) {
        EXPECT_EQ(row->first_row, first);
      }
      if (const auto* row = compute->op.get_if<op::EmbeddingGradient>()) {
        EXPECT_EQ(row->first_row, first);
      }
      if (const auto* row = compute->op.get_if<op::LogitMax>()) {
        EXPECT_EQ(row->first_column, first);
        EXPECT_EQ(row->columns, 37);
      }
      if (const auto* row = compute->op.get_if<op::CrossEntropyGradient>()) {
        EXPECT_EQ(row->first_column, first);
        EXPECT_EQ(row->columns, 37);
      }
    }
  }
}

TEST(Bind, the_ranks_together_start_every_element_of_a_weight_equally_often) {
  const GridSetup setup = full_setup(false);
  std::map<std::string, std::vector<int>> starts;  // by tensor, of each element
  std::map<std::string, std::int64_t> held;        // elements and padding, on all ranks
  for (const Bundle& bundle : bundles_of_all_ranks(setup)) {
    const Program& init = bundle.at(op::ProgramKind::init);
    for (const program::Instruction& i : init.instructions) {
      const auto* compute = std::get_if<program::Compute>(&i.what);
      const auto* row = compute == nullptr ? nullptr : compute->op.get_if<op::InitNormal>();
      if (row == nullptr) continue;
      const program::Buffer& tensor = init.buffer(compute->slices[1].buffer);
      ASSERT_EQ(row->part.global, tensor.global) << "every weight is cut on this grid";
      auto& counts = starts[tensor.name];
      counts.resize(static_cast<std::size_t>(tensor.global.elements()));
      held[tensor.name] += row->shape.elements();
      for (std::int64_t place = 0; place < row->shape.elements(); ++place) {
        std::int64_t rest = place, element = 0, scale = 1;
        bool is_padding = false;
        for (std::size_t dim = row->shape.rank(); dim-- > 0; rest /= row->shape[dim]) {
          const std::int64_t index = row->part.first[dim] + rest % row->shape[dim];
          is_padding = is_padding || index >= tensor.global[dim];
          element += index * scale;
          scale *= tensor.global[dim];
        }
        if (!is_padding) ++counts[static_cast<std::size_t>(element)];
      }
    }
  }
  EXPECT_EQ(starts.size(), 2U + 4 * 2);
  for (const auto& [name, counts] : starts) {
    const int times = name == "wpe.weight" ? 4 : 2;  // not cut on data, positions not on x either
    for (const int count : counts) ASSERT_EQ(count, times) << name;
    const std::int64_t padded = name == "wte.weight" ? 40 * 32 : std::ssize(counts);
    EXPECT_EQ(held[name], padded * times) << name;
  }
}

TEST(Bind, an_update_of_sharded_states_begins_at_the_rows_of_the_rank) {
  // Up is [32 (y,z), 128 (x)]: 8 rows of 64 elements, of which each rank of data updates 4.
  const auto compiled = bundles_of_all_ranks(full_setup(true));
  for (std::size_t rank = 0; rank < compiled.size(); ++rank) {
    const Program& train = compiled[rank].at(op::ProgramKind::train);
    std::size_t updates = 0, gathers = 0;
    for (const program::Instruction& i : train.instructions) {
      const auto is_up = [&](const program::Slice& slice) {
        return train.buffer(slice.buffer).name == "blocks.1.mlp.up.weight";
      };
      const std::int64_t part = 4 * 64 * 4;  // bytes
      const std::int64_t begin = place_of(rank).data * part;
      if (const auto* compute = std::get_if<program::Compute>(&i.what)) {
        if (!compute->op.is<op::AdamW>() || !is_up(compute->slices[5])) continue;
        ++updates;
        EXPECT_EQ(compute->slices[5].offset_bytes, begin) << rank;
        EXPECT_EQ(compute->slices[5].bytes(), part);
      } else if (const auto* gather = std::get_if<program::AllGather>(&i.what)) {
        program::for_each_tensor(*gather, [&](const program::Slice& from, const auto& to) {
          if (!is_up(from) || !is_up(to)) return;
          ++gathers;
          EXPECT_EQ(from.offset_bytes, begin) << rank;
          EXPECT_EQ(to.offset_bytes, 0);
          EXPECT_EQ(to.bytes(), 2 * part);
        });
      }
    }
    EXPECT_EQ(updates, 1U);
    EXPECT_EQ(gathers, 1U);
  }
}

}  // namespace
}  // namespace fourfold::compile
