// Which samples the ranks of a grid are fed: together those of the serial run, at the same places.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <vector>

#include "data/token_source.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "train/feeders.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::RunSetup;

data::TokenSource some_text() {
  data::DataSpec spec;
  spec.format = data::Format::synthetic;
  spec.seq_length = 4;
  spec.vocab_size = 48;
  spec.seed = 7;
  return data::TokenSource(spec);
}

/// What one rank is fed in a step: tokens and labels by the place of the sample in the global
/// batch.
using Fed = std::map<std::int64_t, std::vector<std::int32_t>>;

Fed fed_to(const program::Program& program, const data::Source& source, std::int64_t step) {
  train::TrainFeeder feeder(source);
  const program::Feeds& feeds = program.feeds;
  Fed fed;
  for (const program::Instruction& instruction : program.instructions) {
    const auto* feed = std::get_if<program::Feed>(&instruction.what);
    if (feed == nullptr) continue;
    const Input& input = program.inputs[feed->input.index()];
    const auto length = static_cast<std::size_t>(input.sample_shape[0]);
    const std::int64_t count = feeds.count / feeds.chunks,
                       first = feed->micro * feeds.samples + feeds.first + feed->chunk * count;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count) * length);
    feeder.feed(input, {step, first, count}, std::as_writable_bytes(std::span(ids)));
    for (std::size_t b = 0; b < static_cast<std::size_t>(count); ++b) {
      auto& sample = fed[first + static_cast<std::int64_t>(b)];
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(b * length);
      sample.insert(sample.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
    }
  }
  return fed;
}

TEST(SampleOrder, is_that_of_the_serial_run_on_every_grid) {
  const data::TokenSource dataset = some_text();
  constexpr std::int64_t step = 3;
  const GridRun serial(test::first_model());
  const Fed wanted = fed_to(serial.bundle_of(0).at(op::ProgramKind::train), dataset, step);
  std::size_t count = 0;
  for (const plan::Grid& grid : test::all_grids()) {
    RunSetup setup = test::first_model();
    test::set_grid(setup, grid);
    if (count % 2 == 1 && setup.plan.micro_batch_size % 2 == 0)
      setup.plan.chunks = setup.plan.micro_batch_size % 4 == 0 ? 4 : 2;
    SCOPED_TRACE(test::name_of(setup.plan));
    const GridRun run(setup);
    std::map<std::int64_t, std::size_t> readers;
    for (std::size_t rank = 0; rank < run.num_ranks(); ++rank)
      for (const auto& [place, ids] :
           fed_to(run.bundle_of(rank).at(op::ProgramKind::train), dataset, step)) {
        ASSERT_TRUE(wanted.contains(place)) << "rank " << rank << ", sample " << place;
        EXPECT_EQ(ids, wanted.at(place)) << "rank " << rank << ", sample " << place;
        ++readers[place];
      }
    ASSERT_EQ(readers.size(), wanted.size());
    const auto copies = static_cast<std::size_t>(grid.x * grid.y);
    for (const auto& [place, ranks] : readers) EXPECT_EQ(ranks, copies) << "sample " << place;
    ++count;
  }
  std::printf("%zu grids are fed the samples of the serial run\n", count);
}

}  // namespace
}  // namespace fourfold
