// A VGG as a person trains it: on made-up pictures and on files of them, on every kind of grid,
// gone on from checkpoints, and what is said where pictures are bad or a command wants a model of
// text.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "support/picture_runs.h"
#include "unit/data/picture_files.h"

namespace fourfold {
namespace {

using test::Outcome;
using test::run_here;

class VggRuns : public PictureRuns {
 protected:
  VggRuns() : PictureRuns("vgg") {}
  void SetUp() override {
    FolderTest::SetUp();
    write_file_atomic(path("vgg.yaml"),
                      "model: {kind: vgg}\n"
                      "vgg: {widths: [8, pool, 16, pool], hidden: [16], picture: [8, 8, 3],\n"
                      "  num_classes: 4, dropout: 0.1}\n"
                      "data: {format: synthetic, flip: true, split: 0.99}\n"
                      "train: {steps: 20, global_batch_size: 16, micro_batch_size: 4}\n"
                      "lr_schedule: {kind: constant, warmup_steps: 0}\n"
                      "optimizer: {lr: 3e-3}\n"
                      "eval: {interval_steps: 0, batches: 4}\n"
                      "checkpoint: {interval_steps: 10}\n"
                      "precision: {compute: fp64}\n");
  }
};

TEST_F(VggRuns, learns_made_up_pictures_and_counts_them) {
  const Outcome outcome =
      train("a", {"train.steps=100", "precision.compute=fp32", "train.micro_batch_size=16"});
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const std::string all = outcome.text + outcome.output;
  for (const char* expected :
       {"VGG: 2 convolutions, 2 poolings, 2 linear layers of 16; pictures 8x8x3, 4 classes",
        "pic/s", "1,600 pictures", "accuracy"})
    EXPECT_NE(all.find(expected), std::string::npos) << expected << "\n" << all;
  EXPECT_EQ(all.find("tok"), std::string::npos) << all;
  const Json last = last_metrics("a");
  EXPECT_GE(last.find("val_accuracy")->as_double(), 0.95);
  EXPECT_NE(last.find("pictures_per_s"), nullptr);
  EXPECT_EQ(last.find("tokens_per_s"), nullptr);
  EXPECT_FALSE(file_exists(path("a") + "/tokenizer.json"));
}

TEST_F(VggRuns, its_files_and_its_report_count_pictures_and_nothing_else) {
  ASSERT_EQ(train("a", {"train.steps=2"}).code, 0);
  ASSERT_EQ(run_here({"report", path("a"), "--output", path("a/page.html")}).code, 0);
  for (const char* name : {"page.html", "plan.txt", "metrics.jsonl", "config.resolved.yaml",
                           "command.txt", "env.json", "log.rank0.txt"}) {
    const std::string text = read_file(path("a") + "/" + name);
    const std::size_t place = text.find("token");
    EXPECT_EQ(place, text.npos) << name << ": " << text.substr(place, 60);
  }
  EXPECT_NE(read_file(path("a/page.html")).find("Pictures per second"), std::string::npos);
}

TEST_F(VggRuns, every_kind_of_grid_trains_the_same_weights) {
  if (!is_long_run()) GTEST_SKIP() << "two grids are in the next one; set FOURFOLD_LONG";
  expect_equal_on_grids();
}

TEST_F(VggRuns, goes_on_from_a_checkpoint_on_its_own_grid_and_on_another) {
  expect_to_go_on_elsewhere();
}

TEST_F(VggRuns, its_programs_have_no_faults_on_grids_and_read_back) {
  expect_sound_programs("input       pictures u8 [8, 8, 3]");
}

TEST_F(VggRuns, bad_pictures_end_it_or_are_left_out_counted_and_named) {
  constexpr data::PictureShape shape = {8, 8, 3};
  for (int i = 0; i < 40; ++i)
    data::write_picture_file(path(format("set/{}/{:02}.png", i % 2 == 0 ? "a" : "b", i)),
                             data::png_bytes(data::made_png(i, shape)));
  const std::string bad = "set/a/10.png";
  const std::string whole = data::png_bytes(data::made_png(10, shape));
  data::write_picture_file(path(bad), whole.substr(0, whole.size() - 20));
  const Words sets = {"data.format=pictures", "data.path=" + path("set"), "vgg.picture=[]",
                      "vgg.num_classes=0"};
  const Outcome stopped = train("stopped", sets);
  EXPECT_EQ(stopped.code, 3) << stopped.text;
  EXPECT_NE(stopped.text.find(bad), std::string::npos) << stopped.text;
  EXPECT_FALSE(file_exists(path("stopped")));
  Words skips = sets;
  skips.push_back("data.bad_images=skip:3");
  const Outcome skipped = train("skipped", skips);
  EXPECT_EQ(skipped.code, 0) << skipped.text;
  const std::string all = skipped.text + skipped.output;
  EXPECT_NE(all.find("1 bad picture left out: "), std::string::npos) << all;
  EXPECT_NE(all.find("a/10.png"), std::string::npos) << all;
}

TEST_F(VggRuns, a_width_that_an_axis_does_not_divide_names_its_key) {
  const Outcome outcome = run_here({"plan", path("vgg.yaml"), "--set", "parallel.tensor={x: 3}"});
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  for (const char* expected : {"columns of conv.0.weight that a rank would hold (see vgg.widths)",
                               "columns of linear.0.weight that a rank would hold (see vgg.hidden)",
                               "nearest grids that work"})
    EXPECT_NE(outcome.text.find(expected), std::string::npos) << outcome.text;
}

TEST_F(VggRuns, what_the_data_are_not_is_an_error_of_the_configuration) {
  constexpr data::PictureShape shape = {8, 8, 3};
  for (int i = 0; i < 40; ++i)
    data::write_picture_file(path(format("set/{}/{:02}.png", i % 5, i)),
                             data::png_bytes(data::made_png(i, shape)));
  const auto says = [&](const Words& more, const std::string& expected) {
    Words sets = {"data.format=pictures", "data.path=" + path("set")};
    sets.insert(sets.end(), more.begin(), more.end());
    const Outcome outcome = train("a", sets);
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    EXPECT_NE(outcome.text.find(expected), std::string::npos) << outcome.text;
    EXPECT_FALSE(file_exists(path("a")));
  };
  says({}, "vgg.num_classes = 4 is smaller than the 5 classes of the data");
  says({"vgg.num_classes=5", "vgg.picture=[16, 8, 3]"},
       "vgg.picture = [16, 8, 3] is not the size of the data's pictures, [8, 8, 3]");
  says({"vgg.num_classes=5", "vgg.picture=[]", "vgg.widths=[8, pool, pool, pool, pool]"},
       "vgg.widths pools 4 times, but a picture of 8 x 8 can be halved 3 times");
}

TEST_F(VggRuns, commands_for_models_of_text_say_that_it_is_none) {
  ASSERT_EQ(train("a", {"train.steps=1"}).code, 0);
  write_file_atomic(path("text.txt"), "some text\n");
  for (const Words& words :
       {Words{"generate", path("a")}, Words{"eval", path("a"), "--text", path("text.txt")},
        Words{"export", path("a"), "--output", path("out"), "--format", "hf"}}) {
    const Outcome outcome = run_here(words);
    EXPECT_EQ(outcome.code, 2) << words[0] << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find("is no model of text (model.kind = vgg)"), std::string::npos)
        << words[0] << "\n"
        << outcome.text;
  }
  EXPECT_FALSE(file_exists(path("out")));
}

}  // namespace
}  // namespace fourfold
