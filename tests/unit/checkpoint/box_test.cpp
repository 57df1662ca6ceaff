#include "checkpoint/box.h"

#include <gtest/gtest.h>

#include <vector>

namespace fourfold::checkpoint {
namespace {

/// The offsets that the chunks of a dense tensor have in its memory, one chunk after another.
std::vector<std::int64_t> offsets_in_chunks(const Shape& shape, std::int64_t most_elements) {
  std::vector<std::int64_t> offsets;
  for_chunks(shape, most_elements, [&](const Box& chunk) {
    EXPECT_LE(chunk.elements(), most_elements);
    for_runs(chunk, chunk, whole_box(shape),
             [&](std::int64_t, std::int64_t offset, std::int64_t elements) {
               for (std::int64_t i = 0; i < elements; ++i) offsets.push_back(offset + i);
             });
  });
  return offsets;
}

TEST(Box, chunks_are_all_of_a_tensor_in_the_order_of_its_memory) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{2, 3}, Shape{3, 1, 5},
                             Shape{2, 3, 4, 5}, Shape{1, 1, 8}})
    for (const std::int64_t most : {1, 2, 3, 4, 5, 7, 20, 1000}) {
      std::vector<std::int64_t> all;
      for (std::int64_t i = 0; i < shape.elements(); ++i) all.push_back(i);
      EXPECT_EQ(offsets_in_chunks(shape, most), all) << to_string(whole_box(shape)) << most;
    }
  for_chunks(Shape{3, 0}, 5, [](const Box&) { FAIL() << "nothing to visit"; });
}

TEST(Box, chunks_are_few) {
  std::size_t chunks = 0;
  for_chunks(Shape{10, 100}, 250, [&](const Box&) { ++chunks; });
  EXPECT_EQ(chunks, 5U);
}

}  // namespace
}  // namespace fourfold::checkpoint
