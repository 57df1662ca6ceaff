#include "pipeline/draw.h"

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

std::string drawn(const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros,
                  const Uniform& each, std::size_t most_columns = 160) {
  const std::vector<Order> orders = made(spec, meshes, micros);
  return to_text(orders, timed(orders, costs_of(stages_of(spec, meshes), each)), most_columns);
}

/// Zhuang et al. 2023, figure 4: messages take half as long as a forward task.
const Uniform figure_4 = {1, 2, 0, 0.5, 0.5};

TEST(Drawing, of_1f1b_has_the_gaps_of_the_papers_figure_4a) {
  EXPECT_EQ(drawn({}, 4, 8, figure_4), R"(
mesh 0  F0-F1-F2-F3-...........................B0----F4-B1----F5-...B2----F6-...B3----F7-...B4----...B5----......B6----......B7----
mesh 1  .....F0-F1-F2-..................B0----F3-B1----...F4-B2----F5-...B3----F6-...B4----F7-B5----......B6----......B7----.......
mesh 2  .........F0-F1-.........B0----F2-B1----...F3-B2----...F4-B3----F5-...B4----F6-B5----...F7-B6----......B7----...............
mesh 3  ..............F0-B0----F1-B1----...F2-B2----...F3-B3----...F4-B4----F5-B5----...F6-B6----...F7-B7----......................
)" + 1);
}

TEST(Drawing, of_eager_1f1b_has_none_once_it_is_full_as_the_papers_figure_4b) {
  EXPECT_EQ(drawn({.schedule = Schedule::eager_one_f_one_b}, 4, 8, figure_4), R"(
mesh 0  F0-F1-F2-F3-F4-F5-F6-..................B0----F7-B1----...B2----...B3----...B4----...B5----...B6----...B7----
mesh 1  .....F0-F1-F2-F3-F4-............B0----F5-B1----F6-B2----F7-B3----...B4----...B5----...B6----...B7----.......
mesh 2  .........F0-F1-F2-......B0----F3-B1----F4-B2----F5-B3----F6-B4----F7-B5----...B6----...B7----...............
mesh 3  ..............F0-B0----F1-B1----F2-B2----F3-B3----F4-B4----F5-B5----F6-B6----F7-B7----......................
)" + 1);
}

TEST(Drawing, tells_the_stages_of_a_mesh_apart_and_shows_what_weights_take) {
  EXPECT_EQ(drawn(with_delay({.schedule = Schedule::interleaved, .stages_per_mesh = 2}, 0), 2, 2,
                  {1, 1, 1, 0, 0}),
            R"(
mesh 0  F0.0-F0.1-F2.0-F2.1-.....B2.0-W2.0-.....B2.1-W2.1-B0.0-W0.0-B0.1-W0.1-
mesh 1  .....F1.0-F1.1-F3.0-B3.0-W3.0-F3.1-B3.1-W3.1-B1.0-W1.0-B1.1-W1.1-.....
)" + 1);
}

TEST(Drawing, keeps_to_its_width_and_leaves_out_numbers_without_room) {
  EXPECT_EQ(drawn({}, 2, 3, {1, 2, 0, 0.5, 0.5}, 20), R"(
mesh 0  FF1....B0-FB1-...B2-
mesh 1  ..F0B0F1B1-.F2B2....
)" + 1);
}

}  // namespace
}  // namespace fourfold::pipeline
