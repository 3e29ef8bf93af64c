#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// With these, commands declare their options. They hide CLI11, whose header costs every file that
/// includes it five seconds of compile time; names and rules are those of CLI11.
///
///     App app = tenon.add_subcommand("key", "Makes an API key");
///     app.add_option("name", options->name, "Whose it is").required();
///     app.add_option("--to", options->to, "Language").one_of({"gbnf", "lark"});
///
/// Both classes are handles, as cheap as pointers, and valid as long as the whole command line. The
/// variables that options write to must live until it is parsed.
namespace tenon::app {

class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required() const;
  Option envname(const std::string& name) const;
  Option type_name(const std::string& name) const;
  Option excludes(Option other) const;
  Option allow_extra_args(bool allow) const;
  Option capture_default_str() const;
  Option one_of(std::initializer_list<const char*> values) const;
  /// int, std::int64_t, std::uint64_t or double.
  template <class T>
  Option between(T least, T most) const;

 private:
  CLI::Option* option_;
};

class App {
 public:
  explicit App(CLI::App& app) : app_(&app) {}

  [[nodiscard]] App add_subcommand(const std::string& name, const std::string& description) const;
  void require_subcommand(int count) const;
  /// command_line.cc lists the types of variables that are supported.
  template <class T>
  Option add_option(const std::string& names, T& variable, const std::string& description) const;
  Option add_flag(const std::string& names, bool& variable, const std::string& description) const;
  void footer(const std::string& text) const;

  [[nodiscard]] std::string name() const;
  /// Whether this command is the one that was given.
  [[nodiscard]] bool parsed() const;
  /// How often an option was given. That an environment variable sets it does not count: the
  /// variable may be there for other commands.
  [[nodiscard]] std::size_t count(const std::string& option) const;
  [[nodiscard]] CLI::App& cli() const { return *app_; }

 private:
  CLI::App* app_;
};

}  // namespace tenon::app
