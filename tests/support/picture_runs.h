// Runs of models of pictures as a person starts them: what their tests share. Header only.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "data/png.h"
#include "support/command.h"
#include "support/in_process.h"
#include "support/long_run.h"
#include "unit/data/picture_files.h"

namespace fourfold {

using Words = std::vector<std::string>;

/// Trains with the file `name`.yaml of the test's folder.
class PictureRuns : public FolderTest {
 protected:
  explicit PictureRuns(std::string name) : name_(std::move(name)) {}

  std::string config() const { return path(name_ + ".yaml"); }
  test::Outcome train(const std::string& run, const Words& sets = {},
                      const Words& more = {}) const {
    Words words = {"train", config(), "--set", "run.dir=" + path(run), "--set", "run.threads=1"};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    words.insert(words.end(), more.begin(), more.end());
    return test::run_here(words);
  }
  std::string weights(const std::string& run) const {
    return read_file(path(run) + "/model.safetensors");
  }
  Json last_metrics(const std::string& run) const {
    const std::vector<std::string> lines =
        split(trim(read_file(path(run) + "/metrics.jsonl")), '\n');
    return parse_json(lines.back(), "metrics.jsonl");
  }
  double last_loss(const std::string& run) const {
    const Json last = last_metrics(run);
    return last.find("val_loss")->as_double();
  }

  /// A hundred small pictures, and the configuration of a U-Net with all that one may have.
  void write_small_unet() const {
    constexpr data::PictureShape shape = {8, 8, 3};
    for (int picture = 0; picture < 100; ++picture)
      data::write_picture_file(path(format("set/{}/{}.png", picture % 4, picture)),
                               data::png_bytes(data::made_png(picture, shape)));
    write_file_atomic(config(),
                      "model: {kind: unet}\n"
                      "unet: {channels: 8, channel_mult: [1, 2], num_res_blocks: 1, dropout: 0.1,\n"
                      "  attention_resolutions: [4], num_attention_heads: 2, norm_groups: 4, \n"
                      "  class_conditional: true, learn_sigma: true}\n"
                      "diffusion: {steps: 12, average_decay: 0.9}\n"
                      "data: {format: pictures, path: " +
                          path("set") +
                          "}\n"
                          "train: {steps: 12, global_batch_size: 16, micro_batch_size: 4}\n"
                          "lr_schedule: {kind: constant, warmup_steps: 0}\n"
                          "optimizer: {lr: 3e-3}\n"
                          "eval: {interval_steps: 0, batches: 4}\n"
                          "checkpoint: {interval_steps: 6}\n"
                          "precision: {compute: fp64}\n");
  }

  /// Grids end with the loss of one rank: along all axes, and along one at a time.
  void expect_equal_on_grids() const {
    ASSERT_EQ(train("serial").code, 0);
    int number = 0;
    for (const std::string grid :
         {"parallel.data=2", "parallel.tensor={x: 2, y: 2, z: 2}", "parallel.tensor={x: 2}",
          "parallel.tensor={y: 2}", "parallel.tensor={z: 2}"}) {
      const std::string run = format("grid{}", ++number);
      const test::Outcome outcome = train(run, {grid, "train.micro_batch_size=1"});
      ASSERT_EQ(outcome.code, 0) << grid << "\n" << outcome.text;
      EXPECT_NEAR(last_loss(run), last_loss("serial"), 1e-10 * last_loss("serial")) << grid;
    }
  }
  /// Eight steps, stopped after four and gone on: on the same grid bit for bit, on another but for
  /// rounding.
  void expect_to_go_on_elsewhere() const {
    const auto with = [](Words sets) {
      sets.insert(sets.begin(), "train.steps=8");
      return sets;
    };
    const Words stop = {"--stop-at", "4"};
    ASSERT_EQ(train("whole", with({})).code, 0);
    ASSERT_EQ(train("parts", with({}), stop).code, 0);
    ASSERT_EQ(train("parts", with({})).code, 0);
    EXPECT_TRUE(weights("parts") == weights("whole")) << "bit for bit";
    ASSERT_EQ(train("moved",
                    with({"parallel.tensor={x: 2, z: 2}", "parallel.data=2",
                          "optimizer.shard=states", "train.micro_batch_size=2"}),
                    stop)
                  .code,
              0);
    ASSERT_EQ(train("moved", with({"parallel.tensor={y: 2}", "parallel.data=2",
                                   "optimizer.shard=states", "train.micro_batch_size=2"}))
                  .code,
              0);
    EXPECT_NEAR(last_loss("moved"), last_loss("whole"), 1e-10 * last_loss("whole"));
  }
  /// Programs of a grid, of three with FOURFOLD_LONG, are verified, printed with `expected` in
  /// them, and verified as text.
  void expect_sound_programs(const char* expected) const {
    Words grids = {"parallel.tensor={x: 2, y: 2, z: 2}"};
    if (is_long_run())
      grids.insert(grids.end(), {"parallel.tensor={z: 4}", "parallel.tensor={x: 1, y: 4, z: 1}"});
    for (const std::string& grid : grids) {
      const Words sets = {"--set", grid,
                          "--set", "train.micro_batch_size=1",
                          "--set", "train.global_batch_size=24"};
      Words verify = {"verify", config()}, program = {"program", config(), "--program", "all"};
      verify.insert(verify.end(), sets.begin(), sets.end());
      program.insert(program.end(), sets.begin(), sets.end());
      const test::Outcome verified = test::run_here(verify);
      EXPECT_EQ(verified.code, 0) << grid << "\n" << verified.text << verified.output;
      const test::Outcome printed = test::run_here(program);
      ASSERT_EQ(printed.code, 0);
      EXPECT_NE(printed.output.find(expected), std::string::npos);
      write_file_atomic(path("program.txt"), printed.output);
      EXPECT_EQ(test::run_here({"verify", "--text", path("program.txt")}).code, 0);
    }
  }

 private:
  std::string name_;
};

}  // namespace fourfold
