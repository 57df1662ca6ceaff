#include "screen/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <new>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "screen/patient_output.h"
#include "screen/warning_fold.h"

namespace fourfold::screen {
namespace {

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  fail_internal("every level of ours is one of spdlog's");
}

/// What is said before a run's folder is its own is some dozens of lines.
constexpr std::size_t most_lines_before = 1000;

/// How long the end of a run waits for who reads its lines.
constexpr double patience_s = 2;

/// Writes lines above the status line, which stays the last one.
class ScreenSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ScreenSink(const Terminal& terminal, std::FILE* out)
      : terminal_(terminal), out_(out), output_(fileno(out)) {}

  void set_status(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (!terminal_.is_live || text == status_) return;
    status_ = text;
    pending_ += erase_line;
    draw_status();
    flush_();
  }

  /// Lines that nobody will see. Waits for a slow reader.
  std::int64_t finish() {
    const std::lock_guard lock(mutex_);
    output_.finish(patience_s);
    return output_.lines_lost();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (!status_.empty()) pending_ += erase_line;
    pending_ += marked(message.level, text);
    pending_ += '\n';
    if (!status_.empty()) draw_status();
  }
  /// Line by line: whoever follows a job's log sees each step when it is done.
  void flush_() override {
    std::fflush(out_);  // what others have printed there comes first
    output_.write(pending_);
    pending_.clear();
  }

 private:
  static constexpr const char* erase_line = "\r\x1b[K";

  std::string marked(spdlog::level::level_enum level, std::string_view text) const {
    std::string line;
    if (level == spdlog::level::warn) line = styled(Style::yellow, "warning:") + ' ';
    if (level == spdlog::level::err) line = styled(Style::red, "error:") + ' ';
    // Any line may show what stands in a file.
    if (level == spdlog::level::debug)
      line = styled(Style::dim, without_controls(text));
    else
      line += line.empty() ? without_other_controls(text) : without_controls(text);
    return terminal_.has_color ? line : without_styles(line);
  }

  void draw_status() {
    // In the last column some terminals begin a new line.
    const auto columns = static_cast<std::size_t>(std::max(1, terminal_.columns() - 1));
    const std::string line = first_columns(without_other_controls(status_), columns);
    pending_ += terminal_.has_color ? line : without_styles(line);
  }

  Terminal terminal_;
  std::FILE* out_;
  PatientOutput output_;
  std::string status_, pending_;
};

/// spdlog keeps what a sink throws, and calls the handler of errors meanwhile: memory that is
/// exhausted goes on its way from there, to who ends the run for it.
void rethrow_if_memory_is_exhausted() {
  try {
    if (const std::exception_ptr fault = std::current_exception()) std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
  }
}

/// One spdlog message a line.
void log_lines(spdlog::logger& logger, Level level, std::string_view text) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    logger.log(spdlog_level(level), spdlog::string_view_t(text.data() + begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

/// Two loggers, because a line of figures is cut to the terminal and whole in the file.
struct Log::State {
  State(const Terminal& facts, std::FILE* out)
      : terminal(facts),
        sink(std::make_shared<ScreenSink>(facts, out)),
        screen("screen", sink),
        before(std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(most_lines_before)),
        file("file", before) {
    screen.set_error_handler([](const std::string&) { rethrow_if_memory_is_exhausted(); });
    file.set_error_handler([this](const std::string& why) {
      rethrow_if_memory_is_exhausted();
      lose(why);
    });
  }

  /// A line that did not get into the file.
  void lose(const std::string& why) {
    if (file_lines_lost++ > 0) return;
    screen.warn("the log file cannot be written: {}; the run goes on without some of its lines",
                why);
  }

  void say(Level level, std::string_view on_screen, std::string_view in_file) {
    log_lines(screen, level, on_screen);
    log_lines(file, level, without_controls(without_styles(in_file)));
  }
  void say_counted() {
    std::vector<std::string> lines;
    {
      const std::lock_guard lock(fold_mutex);
      lines = fold.counted();
    }
    for (const std::string& line : lines) say(Level::warning, line, line);
  }

  Terminal terminal;
  std::shared_ptr<ScreenSink> sink;
  spdlog::logger screen;
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> before;  // lines until there is a file
  spdlog::logger file;
  std::mutex fold_mutex;
  WarningFold fold;
  std::atomic<std::int64_t> file_lines_lost{0};
};

Level log_level(std::string_view word) {
  if (word == "debug") return Level::debug;
  if (word == "warning") return Level::warning;
  return word == "error" ? Level::error : Level::info;
}

Log::Log(Level level, const Terminal& terminal, std::FILE* out)
    : state_(std::make_unique<State>(terminal, out)) {
  for (spdlog::logger* logger : {&state_->screen, &state_->file})
    logger->flush_on(spdlog::level::trace);
  set_level(level);
}

void Log::set_level(Level level) {
  state_->screen.set_level(spdlog_level(level));
  state_->file.set_level(spdlog_level(level));
}

Log::~Log() {
  state_->say_counted();
  status("");
  const std::int64_t screen_lost = state_->sink->finish();
  if (screen_lost > 0) {
    const std::string text =
        format("{} lines did not reach standard output, which nobody reads", screen_lost);
    log_lines(state_->file, Level::warning, text);
    std::fprintf(stderr, "warning: %s\n", text.c_str());
  }
  if (state_->file_lines_lost > 0)
    std::fprintf(stderr, "warning: %lld lines of the log file were lost\n",
                 static_cast<long long>(state_->file_lines_lost));
}

void Log::keep(const std::string& path, Existing existing) {
  // A device that takes lines away does not wait.
  if (!std::filesystem::is_character_file(path)) require_file_or_nothing(path);
  try {
    auto file =
        std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, existing == Existing::replace);
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    for (const auto& line : state_->before->last_raw()) file->log(line);
    state_->file.sinks() = {std::move(file)};
  } catch (const spdlog::spdlog_ex& error) {
    throw UserError(ExitCode::storage, format("cannot write the log {}: {}", path, error.what()));
  }
}

void Log::say(Level level, std::string_view text) {
  state_->say(level, text, text);
}

void Log::warn_from(std::string_view tag, std::string_view text) {
  {
    const std::lock_guard lock(state_->fold_mutex);
    if (!state_->fold.is_new(text)) return;
  }
  warn(format("{} {}", tag, text));
}

void Log::row(std::span<const Cell> cells) {
  state_->say_counted();
  state_->say(Level::info, fit(cells, columns()), fit(cells, 0));
}

bool Log::is_live() const {
  return state_->terminal.is_live;
}

int Log::columns() const {
  return state_->terminal.columns();
}

bool Log::is_unicode() const {
  return state_->terminal.is_unicode;
}

void Log::status(std::string_view text) {
  state_->sink->set_status(text);
}

}  // namespace fourfold::screen
