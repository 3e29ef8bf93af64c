#include "logging.h"

#include <string>
#include <utility>

#include "terminal.h"
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "tenon/base/log.h"

namespace tenon::app {
namespace {

constexpr std::pair<std::string_view, log::Level> kLevels[] = {{"trace", log::Level::trace},
                                                               {"debug", log::Level::debug},
                                                               {"info", log::Level::info},
                                                               {"warn", log::Level::warn},
                                                               {"error", log::Level::error}};

void write(log::Level level, std::string_view message) {
  // The message may contain text of models and clients, whose line ends must not make a second
  // line.
  const std::string line = printable(message, /*keeps_lines=*/false);
  spdlog::log(static_cast<spdlog::level::level_enum>(level), spdlog::string_view_t(line));
}

}  // namespace

Status start_logging(std::string_view level) {
  for (const auto& [name, value] : kLevels) {
    if (name != level) continue;
    // Once: others may be writing when the level changes.
    static const bool kStarted = [] {
      spdlog::set_default_logger(spdlog::stderr_color_mt("tenon"));
      spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
      spdlog::set_level(spdlog::level::trace);
      spdlog::flush_on(spdlog::level::trace);
      return true;
    }();
    static_cast<void>(kStarted);
    log::set_sink(&write, value);
    return {};
  }
  return Unexpected(Error{
      Errc::invalid,
      "log_level must be trace, debug, info, warn or error, not '" + std::string(level) + "'"});
}

}  // namespace tenon::app
