#include "outline.h"

#include <algorithm>
#include <string_view>

#include <CLI/CLI.hpp>

// The options and commands as CLI11 has them, outlined once (outline_of), become scripts by which
// shells complete words, and manual pages in roff. Each shell has its own quoting and its own
// language for completions; the texts of options are quoted for it, since they have apostrophes and
// brackets.

namespace tenon::app {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

OutlinedOption outline_of(const CLI::Option& option) {
  OutlinedOption outlined{.names = {},
                          .value = {},
                          .description = option.get_description(),
                          .variable = option.get_envname()};
  for (const std::string& name : option.get_snames()) outlined.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) outlined.names.push_back("--" + name);
  // An option without names is a positional one.
  if (outlined.names.empty()) {
    outlined.value = option.get_name(true);
  } else if (option.get_items_expected_max() > 0) {
    outlined.value = option.get_type_name();
  }
  return outlined;
}

// What may come as a word of this command: its own commands and its options.
std::vector<std::string> words_of(const OutlinedCommand& command) {
  std::vector<std::string> words;
  for (const OutlinedCommand& part : command.commands) words.push_back(part.name);
  for (const OutlinedOption& option : command.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

// Quotes for a shell. A quote in the text ends the quotes, stands alone, and begins new ones.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out + "'";
}

// ---- Shells -------------------------------------------------------------------------------------

// The first word that is a command decides; its words are offered, and files where no option
// begins.
std::string bash_script(const OutlinedCommand& command) {
  std::string names;
  std::string cases = "    '') words=" + shell_quoted(joined(words_of(command), " ")) + " ;;\n";
  for (const OutlinedCommand& part : command.commands) {
    names += (names.empty() ? "" : "|") + part.name;
    cases += "    " + part.name + ") words=" + shell_quoted(joined(words_of(part), " ")) + " ;;\n";
  }
  return "# bash completion of " + command.name + "\n_" + command.name +
         "() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} command= words= i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case ${COMP_WORDS[i]} in " +
         names +
         ") command=${COMP_WORDS[i]}; break ;; esac\n"
         "  done\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "  if [[ $current != -* && -n $command ]]; then\n"
         "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$current\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _" +
         command.name + " " + command.name + "\n";
}

// Escapes the characters that have a meaning for _arguments and _describe.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// "*" before a name lets the option come again.
std::string zsh_arguments(const OutlinedCommand& command) {
  std::string out;
  for (const OutlinedOption& option : command.options) {
    const std::string value = option.value.empty() ? "" : ":" + zsh_text(option.value) + ":_files";
    if (option.names.empty()) out += " " + shell_quoted("*" + value);
    for (const std::string& name : option.names) {
      out += " \\\n        " +
             shell_quoted("*" + name + "[" + zsh_text(option.description) + "]" + value);
    }
  }
  if (command.commands.empty()) return out;
  std::vector<std::string> names;
  for (const OutlinedCommand& part : command.commands) names.push_back(part.name);
  return out + " " + shell_quoted("1:command:(" + joined(names, " ") + ")") + " '*:file:_files'";
}

// The file serves both ways of loading: as a file of $fpath named _tenon, and sourced.
std::string zsh_script(const OutlinedCommand& command) {
  std::string described;
  std::string cases;
  for (const OutlinedCommand& part : command.commands) {
    described +=
        "    " + shell_quoted(zsh_text(part.name) + ":" + zsh_text(part.description)) + "\n";
    cases += "    " + part.name + ") _arguments" + zsh_arguments(part) + " ;;\n";
  }
  return "#compdef " + command.name + "\n_" + command.name +
         "() {\n"
         "  local -a commands=(\n" +
         described +
         "  )\n"
         "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
         "  shift words; (( CURRENT-- ))\n"
         "  case $words[1] in\n" +
         cases +
         "  esac\n"
         "}\n"
         // zsh reads the file as the body of this function, unless it is sourced.
         "if [[ $funcstack[1] = _" +
         command.name + " ]]; then _" + command.name + " \"$@\"; else compdef _" + command.name +
         " " + command.name + "; fi\n";
}

std::string fish_option(const std::string& name, const std::string& condition,
                        const OutlinedOption& option) {
  std::string line = "complete -c " + name + " -n " + shell_quoted(condition);
  for (const std::string& one : option.names) {
    line += one.starts_with("--") ? " -l " + one.substr(2) : " -s " + one.substr(1);
  }
  return line + (option.value.empty() ? "" : " -r") + " -d " + shell_quoted(option.description) +
         "\n";
}

// A line for each option and command, each with the condition under which fish offers it.
std::string fish_script(const OutlinedCommand& command) {
  std::string out = "# fish completion of " + command.name + "\n";
  for (const OutlinedOption& option : command.options) {
    if (!option.names.empty()) out += fish_option(command.name, "__fish_use_subcommand", option);
  }
  for (const OutlinedCommand& part : command.commands) {
    out += "complete -c " + command.name + " -f -n '__fish_use_subcommand' -a " + part.name +
           " -d " + shell_quoted(part.description) + "\n";
    const std::string condition = "__fish_seen_subcommand_from " + part.name;
    for (const OutlinedCommand& inner : part.commands) {
      out += "complete -c " + command.name + " -n " + shell_quoted(condition) + " -a " +
             inner.name + " -d " + shell_quoted(inner.description) + "\n";
    }
    for (const OutlinedOption& option : part.options) {
      if (!option.names.empty()) out += fish_option(command.name, condition, option);
    }
  }
  return out;
}

// Adds the options of a command's own commands to it, because a shell looks only for the first
// command.
OutlinedCommand with_inner_options(OutlinedCommand command) {
  for (OutlinedCommand& part : command.commands) {
    for (const OutlinedCommand& inner : part.commands) {
      for (const OutlinedOption& option : inner.options) {
        const bool is_there = std::ranges::find(part.options, option.names,
                                                &OutlinedOption::names) != part.options.end();
        if (!option.names.empty() && !is_there) part.options.push_back(option);
      }
    }
  }
  return command;
}

// ---- Manual pages -------------------------------------------------------------------------------

// Escapes what has a meaning in roff: a backslash, a hyphen, and a dot or quote that begins a line.
std::string roff(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    begins_line = c == '\n';
  }
  return out;
}

std::string synopsis_of(const OutlinedCommand& command, const std::string& name) {
  std::string line = ".B " + roff(name) + "\n[\\fIoptions\\fR]";
  for (const OutlinedOption& option : command.options) {
    if (option.names.empty()) line += " [\\fI" + roff(option.value) + "\\fR]";
  }
  return line + (command.commands.empty() ? "" : " \\fIcommand\\fR") + "\n";
}

// One paragraph (.TP) for each option: its names in bold, its value in italics, the description
// below.
std::string options_of(const OutlinedCommand& command) {
  std::string out;
  for (const OutlinedOption& option : command.options) {
    out += ".TP\n\\fB" + roff(option.names.empty() ? option.value : joined(option.names, ", ")) +
           "\\fR";
    if (!option.names.empty() && !option.value.empty()) {
      out += " \\fI" + roff(option.value) + "\\fR";
    }
    out += "\n" + roff(option.description) + "\n";
    if (!option.variable.empty()) {
      out += ".br\nVariable of the environment: \\fB" + roff(option.variable) + "\\fR\n";
    }
  }
  return out;
}

}  // namespace

// Options and commands without a group are hidden.
OutlinedCommand outline_of(const CLI::App& app) {
  OutlinedCommand command{.name = app.get_name(),
                          .description = app.get_description(),
                          .footer = app.get_footer(),
                          .options = {},
                          .commands = {}};
  for (const CLI::Option* option : app.get_options(nullptr)) {
    if (!option->get_group().empty()) command.options.push_back(outline_of(*option));
  }
  for (const CLI::App* part : app.get_subcommands(nullptr)) {
    if (!part->get_group().empty()) command.commands.push_back(outline_of(*part));
  }
  return command;
}

std::string completion_script(const OutlinedCommand& command, const std::string& shell) {
  const OutlinedCommand whole = with_inner_options(command);
  if (shell == "bash") return bash_script(whole);
  if (shell == "zsh") return zsh_script(whole);
  if (shell == "fish") return fish_script(whole);
  return "";
}

// A page in roff, see man-pages(7). The footer is shown as it is (.nf), because it has examples.
std::string manual_page(const OutlinedCommand& command, const std::string& parent,
                        const std::string& version) {
  const std::string name = parent.empty() ? command.name : parent + " " + command.name;
  const std::string page = parent.empty() ? command.name : parent + "-" + command.name;
  std::string title = page;
  std::ranges::transform(title, title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string out = ".TH " + roff(title) + " 1 \"\" \"tenon " + roff(version) + "\"\n.SH NAME\n" +
                    roff(page) + " \\- " + roff(command.description) + "\n.SH SYNOPSIS\n" +
                    synopsis_of(command, name) + ".SH OPTIONS\n" + options_of(command);
  if (!command.commands.empty()) out += ".SH COMMANDS\n";
  for (const OutlinedCommand& part : command.commands) {
    out += ".TP\n\\fB" + roff(part.name) + "\\fR\n" + roff(part.description) + "\n";
    if (!parent.empty()) out += ".RS\n" + options_of(part) + ".RE\n";
  }
  if (!command.footer.empty()) out += ".SH NOTES\n.nf\n" + roff(command.footer) + "\n.fi\n";
  out += ".SH SEE ALSO\n";
  out += parent.empty() ? "\\fBtenon.toml\\fR(5)" : "\\fB" + roff(parent) + "\\fR(1)";
  if (parent.empty()) {
    for (const OutlinedCommand& part : command.commands) {
      out += ", \\fB" + roff(command.name + "-" + part.name) + "\\fR(1)";
    }
  }
  return out + "\n";
}

}  // namespace tenon::app
