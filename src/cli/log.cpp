#include "cli/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <streambuf>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::cli {
namespace {

/// Gives each complete line to a log.
class LineBuffer : public std::streambuf {
 public:
  explicit LineBuffer(Log& log) : log_(log) {}

 protected:
  int_type overflow(int_type letter) override {
    if (letter == traits_type::eof()) return 0;
    if (letter != '\n') {
      line_ += traits_type::to_char_type(letter);
      return letter;
    }
    constexpr std::string_view mark = "warning: ";
    if (line_.starts_with(mark))
      log_.warn(std::string_view(line_).substr(mark.size()));
    else
      log_.info(line_);
    line_.clear();
    return letter;
  }

 private:
  Log& log_;
  std::string line_;
};

}  // namespace

struct Log::State {
  explicit State(Log& log) : buffer(log), stream(&buffer) {
    auto terminal = std::make_shared<spdlog::sinks::stdout_sink_st>();
    terminal->set_pattern("%v");
    logger.sinks().push_back(std::move(terminal));
    logger.flush_on(spdlog::level::info);
  }

  spdlog::logger logger{"fourfold"};
  LineBuffer buffer;
  std::ostream stream;
};

Log::Log() : state_(std::make_unique<State>(*this)) {}
Log::~Log() = default;

void Log::keep(const std::string& path) {
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_st>(path, true);
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    state_->logger.sinks().push_back(std::move(file));
  } catch (const spdlog::spdlog_ex& error) {
    throw UserError(ExitCode::storage, format("cannot write the log {}: {}", path, error.what()));
  }
}

void Log::info(std::string_view text) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    state_->logger.log(spdlog::level::info,
                       spdlog::string_view_t(text.data() + begin, end - begin));
    begin = end + 1;
  }
}

void Log::warn(std::string_view text) {
  state_->logger.log(spdlog::level::warn, format("warning: {}", text));
}

std::ostream& Log::stream() {
  return state_->stream;
}

}  // namespace fourfold::cli
