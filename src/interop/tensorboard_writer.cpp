#include "interop/tensorboard_writer.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "interop/tensorboard_events.h"

namespace fourfold::interop {
namespace {

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TensorboardWriter::TensorboardWriter(FileSystem& files, Options options, Warn warn)
    : files_(files),
      options_(std::move(options)),
      warn_(std::move(warn)),
      pause_s_(options_.pause_s),
      thread_([this] { work(); }) {}

TensorboardWriter::~TensorboardWriter() {
  finish();
}

void TensorboardWriter::add(std::string record) {
  const std::lock_guard lock(mutex_);
  if (ends_ || queued_.size() + record.size() > options_.most_queued) {
    ++num_dropped_;
    return;
  }
  queued_ += record;
  ++num_queued_;
}

std::int64_t TensorboardWriter::finish() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  return num_dropped_;
}

void TensorboardWriter::work() {
  const std::chrono::duration<double> interval(options_.flush_interval_s);
  for (bool ends = false; !ends;) {
    std::string records;
    std::int64_t count = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, interval, [this] { return ends_; });
      ends = ends_;
      records.swap(queued_);
      count = std::exchange(num_queued_, 0);
    }
    if (count > 0) write(records, count);
  }
}

void TensorboardWriter::write(const std::string& records, std::int64_t count) {
  std::string fault;
  if (steady_s() >= blocked_until_s_) {
    try {
      if (!file_) open();
      file_->write(std::as_bytes(std::span(records)));
      pause_s_ = options_.pause_s;
      return;
    } catch (const UserError& error) {
      fault = error.what();
    }
    file_.reset();
    blocked_until_s_ = steady_s() + pause_s_;
    pause_s_ *= 2;
  }
  const std::lock_guard lock(mutex_);
  num_dropped_ += count;
  if (fault.empty() || std::exchange(has_warned_, true)) return;
  warn_(format("{}; the run goes on, but TensorBoard will miss some steps", fault));
}

void TensorboardWriter::open() {
  if (!files_.exists(options_.folder)) files_.make_directory(options_.folder);
  for (;;) {
    const std::string name =
        format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<std::int64_t>(wall_s()),
               options_.host, ::getpid(), num_files_++);
    const std::string path = join_path(options_.folder, name);
    if (files_.exists(path)) continue;
    auto file = files_.create(path);
    const std::string first = file_version_record(wall_s());
    file->write(std::as_bytes(std::span(first)));
    file_ = std::move(file);
    return;
  }
}

}  // namespace fourfold::interop
