// Tiles in shared memory as the kernels read and write them: which banks a warp meets at once, and
// what a block takes of a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "kernels/cuda/attention_tiling.h"
#include "kernels/cuda/fragments.h"

namespace fourfold::numerics {
namespace {

using namespace kernels::cuda;

constexpr int bank_bytes = 4, banks = 32;

/// How often the busiest bank is asked for different words, at one access of `bytes` at each byte
/// address: threads that ask for 16 bytes go in groups of 8, others in one of 32 (CUDA programming
/// guide, shared memory).
int conflicts(const std::vector<int>& addresses, int bytes) {
  const std::size_t at_once = bytes == 16 ? 8 : 32;
  int most = 0;
  for (std::size_t first = 0; first < addresses.size(); first += at_once) {
    std::vector<std::set<int>> words(banks);
    for (std::size_t i = first; i < std::min(first + at_once, addresses.size()); ++i)
      for (int word = addresses[i] / bank_bytes; word < (addresses[i] + bytes) / bank_bytes; ++word)
        words[static_cast<std::size_t>(word % banks)].insert(word);
    for (const std::set<int>& of_bank : words)
      most = std::max(most, static_cast<int>(of_bank.size()));
  }
  return most;
}

/// Byte addresses of element place(lane) for every lane.
template <class Place>
std::vector<int> addresses_of(int stride, int element_bytes, const Place& place) {
  std::vector<int> addresses;
  for (int lane = 0; lane < 32; ++lane) {
    const FragmentPlace at = place(lane);
    addresses.push_back((at.row * stride + at.column) * element_bytes);
  }
  return addresses;
}

TEST(CudaEmulatedFragments, conflicts_are_counted_as_the_hardware_has_them) {
  std::vector<int> in_a_row, in_a_column, the_same(32, 8);
  for (int i = 0; i < 32; ++i) {
    in_a_row.push_back(4 * i);
    in_a_column.push_back(128 * i);
  }
  EXPECT_EQ(conflicts(in_a_row, 4), 1);
  EXPECT_EQ(conflicts(in_a_column, 4), 32);
  EXPECT_EQ(conflicts(the_same, 4), 1);
  EXPECT_EQ(conflicts(in_a_column, 16), 8);
}

TEST(CudaEmulatedFragments, of_bf16_are_loaded_without_bank_conflicts) {
  for (const int width : {32, 64, 128, 256, 384, 512}) {
    const int stride = shared_stride(width, 2);
    EXPECT_EQ(conflicts(addresses_of(stride, 2, place_by_columns), 16), 1) << width;
    EXPECT_EQ(conflicts(addresses_of(stride, 2, place_by_rows), 16), 1) << width;
    EXPECT_EQ(stride * 2 % 16, 0) << "rows begin at multiples of 16 bytes";
  }
  EXPECT_GT(conflicts(addresses_of(64, 2, place_by_rows), 16), 1) << "without room between rows";
}

TEST(CudaEmulatedFragments, of_f32_and_sums_meet_no_bank_twice) {
  for (const int width : {32, 64, 128, 256, 384, 512}) {
    const int stride = shared_stride(width, 4), half_stride = shared_stride(width, 2);
    const auto first_of_pair = [](int lane) { return place_of_sum(lane, 0); };
    EXPECT_EQ(conflicts(addresses_of(half_stride, 2, first_of_pair), 4), 1) << "bf16 pairs";
    const auto column_of_b = [](int lane) {
      return FragmentPlace{place_of_sum(lane, 0).column, 0};
    };
    EXPECT_EQ(conflicts(addresses_of(stride, 4, column_of_b), 4), 1) << "rows are columns of b";
    const auto row_of_b = [](int lane) { return FragmentPlace{0, place_of_sum(lane, 0).column}; };
    EXPECT_EQ(conflicts(addresses_of(stride, 4, row_of_b), 4), 1) << "rows are rows of b";
  }
}

TEST(CudaEmulatedFragments, places_of_sums_cover_a_tile_once) {
  std::set<std::pair<int, int>> places;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const FragmentPlace place = place_of_sum(lane, i);
      EXPECT_TRUE(place.row >= 0 && place.row < 16 && place.column >= 0 && place.column < 8);
      places.insert({place.row, place.column});
    }
  EXPECT_EQ(places.size(), 128U);
}

/// use(tiling) for every type and width.
template <class Use>
void for_each_tiling(Use&& use) {
  use(ForwardTiling<2, 32>{}), use(ForwardTiling<2, 64>{});
  use(ForwardTiling<2, 128>{}), use(ForwardTiling<2, 256>{});
  use(ForwardTiling<2, 384>{}), use(ForwardTiling<2, 512>{});
  use(ForwardTiling<4, 32>{}), use(ForwardTiling<4, 64>{});
  use(ForwardTiling<4, 128>{}), use(ForwardTiling<4, 256>{});
  use(ForwardTiling<4, 384>{}), use(ForwardTiling<4, 512>{});
}
template <class Use>
void for_each_gradient_tiling(Use&& use) {
  use(GradientTiling<2, 32>{}), use(GradientTiling<2, 64>{});
  use(GradientTiling<2, 128>{}), use(GradientTiling<2, 256>{});
  use(GradientTiling<2, 384>{}), use(GradientTiling<2, 512>{});
  use(GradientTiling<4, 32>{}), use(GradientTiling<4, 64>{});
  use(GradientTiling<4, 128>{}), use(GradientTiling<4, 256>{});
  use(GradientTiling<4, 384>{}), use(GradientTiling<4, 512>{});
}

// CUDA programming guide, technical specifications: largest shared memory of a block on compute
// capability 8.0, and on 8.6 and 8.9.
constexpr std::size_t most_on_80 = 163 << 10, most_on_89 = 99 << 10;

TEST(CudaEmulatedTiling, fits_into_a_block_s_shared_memory) {
  for_each_tiling([]<class Tiling>(Tiling) {
    EXPECT_LE(Tiling::shared_bytes, Tiling::width <= 384 ? most_on_89 : most_on_80)
        << Tiling::width;
    EXPECT_EQ(Tiling::tile_rows % 16, 0);
    EXPECT_EQ(Tiling::width / Tiling::parts % 16, 0);
    EXPECT_LE(Tiling::row_tiles * Tiling::width / Tiling::parts / 8 * 4, 128) << "registers of y";
  });
  for_each_gradient_tiling([]<class Tiling>(Tiling) {
    EXPECT_LE(Tiling::shared_bytes, most_on_80) << Tiling::width;
    if (Tiling::width <= 64) {
      EXPECT_LE(Tiling::shared_bytes, most_on_89) << Tiling::width;
    }
  });
}

TEST(CudaEmulatedTiling, of_gradients_has_whole_tiles_and_chunks) {
  for_each_gradient_tiling([]<class Tiling>(Tiling) {
    EXPECT_EQ(Tiling::chunk % 16, 0);
    EXPECT_EQ(Tiling::tile_rows % Tiling::chunk, 0);
    EXPECT_EQ(Tiling::own_rows % Tiling::tile_rows, 0) << "blocks of keys begin with a tile";
    EXPECT_EQ(Tiling::width / Tiling::parts % 16, 0);
    EXPECT_EQ(Tiling::width / Tiling::score_parts % 16, 0);
    EXPECT_LE(2 * Tiling::row_tiles * Tiling::width / Tiling::parts / 8 * 4, 128)
        << "registers of two gradients";
    EXPECT_LE(Tiling::row_tiles * Tiling::chunk / 8 * 4, 64) << "bits for dropped scores";
  });
}

}  // namespace
}  // namespace fourfold::numerics
