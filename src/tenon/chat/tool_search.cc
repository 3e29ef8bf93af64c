#include "tenon/chat/tool_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "tenon/json/value.h"
#include "tenon/message/build.h"

// How tools are found
//
// A request with hundreds of tools has tens of thousands of prompt tokens, and weak models choose
// worse among them. So the prompt has the names of the deferred tools alone, in the description of
// one more tool, which finds them by words. Its result has the descriptions and schemas of what it
// found, and from then on these tools can be called: the mask and the parser know them, while the
// list of tools in the prompt stays as it was (Tool::is_listed), so nothing that a cache holds is
// lost. The search runs here, as any tool of the server's (server_tools.h); the client sees an
// answer that calls the tool which was found.

namespace tenon::chat {
namespace {

using message::Tool;

constexpr std::size_t kMostFamilyBytes = 12'000;  // of names in the description
constexpr std::size_t kMostQueryWords = 64;       // a query is a model's text, of any length

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// Bytes of characters beyond ASCII are letters.
bool is_word_byte(char c) {
  return is_lower(c) || is_upper(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80;
}

// "queries" becomes "query", "files" becomes "file"; "class" and "bus" stay. It only has to treat a
// query and a description alike.
std::string singular(std::string word) {
  if (word.size() > 4 && word.ends_with("ies")) return word.replace(word.size() - 3, 3, "y");
  if (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss")) word.pop_back();
  return word;
}

// The names and descriptions of the parameters, however deep.
void add_parameters(const json::Value& schema, std::string& out, std::size_t depth = 0) {
  constexpr std::size_t kMostDepth = 4;
  if (depth == kMostDepth) return;
  const json::Value* const properties = schema.find("properties");
  if (properties != nullptr && properties->if_object() != nullptr) {
    for (const json::Member& member : *properties->if_object()) {
      out += ' ';
      out += member.key;
      const json::Value* const told = member.value.find("description");
      if (told != nullptr && told->if_string() != nullptr) out += ' ' + *told->if_string();
      add_parameters(member.value, out, depth + 1);
    }
  }
  if (const json::Value* const items = schema.find("items")) add_parameters(*items, out, depth + 1);
}

// "github" of github_list_issues, "list" of listIssues. The first character always belongs to it.
std::string family_of(std::string_view name) {
  std::size_t end = 1;
  while (end < name.size() && is_word_byte(name[end]) &&
         !(is_upper(name[end]) && is_lower(name[end - 1]))) {
    ++end;
  }
  return std::string(name.substr(0, std::min(end, name.size())));
}

// Tools that the history calls or that tool_choice names: they must stay in the prompt.
std::set<std::string_view> called_names(const message::ChatRequest& request) {
  std::set<std::string_view> names;
  for (const message::Message& message : request.messages) {
    for (const message::ToolCall& call : message.tool_calls) names.insert(call.name);
  }
  for (const std::string& name : request.tool_choice.allowed) names.insert(name);
  return names;
}

Tool search_tool(std::string name, const std::vector<Tool>& deferred) {
  json::Object query{{"type", "string"},
                     {"description", "What the tool should do, in a few words"}};
  json::Object properties;
  properties.set("query", std::move(query));
  json::Object schema{{"type", "object"}};
  schema.set("properties", std::move(properties));
  schema.set("required", json::Array{"query"});
  schema.set("additionalProperties", false);
  return message::function_tool(std::move(name),
                                "Finds tools that are not listed here, by what they do. A tool can "
                                "be called once it has been "
                                "found. Names of these tools:\n" +
                                    families_of(deferred, kMostFamilyBytes),
                                std::move(schema));
}

json::Value described(const Tool& tool) {
  json::Object out{{"name", tool.name}};
  if (!tool.description.empty()) out.set("description", tool.description);
  if (!tool.parameters.is_null()) out.set("parameters", tool.parameters);
  return out;
}

}  // namespace

std::vector<std::string> search_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(singular(std::exchange(word, {})));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!is_word_byte(c)) {
      end_word();
      continue;
    }
    // listIssues is "list", "issues"; in HTTPServer the last capital begins the next word: "http",
    // "server".
    const bool begins = is_upper(c) && i > 0 && (is_lower(text[i - 1]) || is_digit(text[i - 1]));
    const bool ends_capitals = is_upper(c) && i > 0 && is_upper(text[i - 1]) &&
                               i + 1 < text.size() && is_lower(text[i + 1]);
    if (begins || ends_capitals) end_word();
    word += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  end_word();
  return words;
}

// A tool's length is that of its weighted words, as its counts are.
ToolIndex::ToolIndex(const std::vector<Tool>& tools) {
  std::map<std::string, std::map<std::size_t, double>> counts;
  double all = 0;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    constexpr double kOfName = 3;
    std::string text = tools[i].description;
    add_parameters(tools[i].parameters, text);
    double length = 0;
    const auto add = [&](std::string_view of, double weight) {
      for (std::string& word : search_words(of)) {
        counts[std::move(word)][i] += weight;
        length += weight;
      }
    };
    add(tools[i].name, kOfName);
    add(text, 1);
    lengths_.push_back(length);
    all += length;
  }
  mean_length_ = tools.empty() ? 1 : std::max(1.0, all / static_cast<double>(tools.size()));
  for (auto& [text, uses] : counts) {
    Word word{.text = text, .uses = {}};
    for (const auto& [tool, count] : uses) word.uses.push_back({tool, count});
    words_.push_back(std::move(word));
  }
}

const ToolIndex::Word* ToolIndex::find(std::string_view text) const {
  const auto found = std::ranges::lower_bound(words_, text, {}, &Word::text);
  return found == words_.end() || found->text != text ? nullptr : &*found;
}

std::vector<std::size_t> ToolIndex::search(std::string_view query, std::size_t most) const {
  constexpr double kK1 = 1.2;
  constexpr double kB = 0.75;
  std::vector<std::string> wanted = search_words(query);
  if (wanted.size() > kMostQueryWords) wanted.resize(kMostQueryWords);
  std::ranges::sort(wanted);
  wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
  std::vector<double> scores(lengths_.size());
  for (const std::string& text : wanted) {
    const Word* const word = find(text);
    if (word == nullptr) continue;
    const auto with = static_cast<double>(word->uses.size());
    // The rarer a word is among the tools, the more it counts; `1 +` keeps it above zero for a word
    // that most tools have.
    const double weight =
        std::log(1 + (static_cast<double>(lengths_.size()) - with + 0.5) / (with + 0.5));
    for (const auto& [tool, count] : word->uses) {
      const double norm = kK1 * (1 - kB + kB * lengths_[tool] / mean_length_);
      scores[tool] += weight * count * (kK1 + 1) / (count + norm);
    }
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > 0) found.push_back(i);
  }
  // Stable: tools with equal scores stay in the order of the request, so results can be repeated.
  std::ranges::stable_sort(found,
                           [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  if (found.size() > most) found.resize(most);
  return found;
}

// "github: github_issues github_pulls\nread_file\n". What does not fit becomes "github: 2 tools",
// and then "and 40 more".
std::string families_of(const std::vector<Tool>& tools, std::size_t most_bytes) {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> families;  // as they come
  std::map<std::string, std::size_t> places;
  for (const Tool& tool : tools) {
    std::string family = family_of(tool.name);
    const auto [place, is_new] = places.try_emplace(family, families.size());
    if (is_new) families.emplace_back(std::move(family), std::vector<std::string_view>());
    families[place->second].second.push_back(tool.name);
  }
  std::string out;
  std::size_t left = tools.size();
  for (const auto& [family, names] : families) {
    std::string line = family + ":";
    for (const std::string_view name : names) line.append(" ").append(name);
    if (names.size() == 1) line = names.front();
    if (out.size() + line.size() + 1 > most_bytes) {
      line = family + ": " + std::to_string(names.size()) + " tools";
    }
    if (out.size() + line.size() + 1 > most_bytes) {
      return out + "and " + std::to_string(left) + " more\n";
    }
    out += line + "\n";
    left -= names.size();
  }
  return out;
}

bool ToolSearch::is_wanted(const message::ChatRequest& request, std::size_t more,
                           const ToolSearchOptions& options) {
  if (!options.is_on) return false;
  const bool defers_all = options.from > 0 && request.tools.size() + more >= options.from;
  return defers_all || std::ranges::any_of(request.tools, &Tool::is_deferred);
}

std::shared_ptr<ToolSearch> ToolSearch::of(message::ChatRequest& request,
                                           const ToolSearchOptions& options) {
  if (!is_wanted(request, 0, options)) return nullptr;
  const bool defers_all = options.from > 0 && request.tools.size() >= options.from;
  const std::set<std::string_view> called = called_names(request);
  const auto stays = [&](const Tool& tool) {
    return !(defers_all || tool.is_deferred) || called.contains(tool.name);
  };
  const auto first = std::stable_partition(request.tools.begin(), request.tools.end(), stays);
  if (first == request.tools.end()) return nullptr;
  std::vector<Tool> deferred(std::make_move_iterator(first),
                             std::make_move_iterator(request.tools.end()));
  request.tools.erase(first, request.tools.end());
  const auto is_taken = [&](const std::string& name) {
    const auto has = [&](const std::vector<Tool>& tools) {
      return std::ranges::find(tools, name, &Tool::name) != tools.end();
    };
    return has(request.tools) || has(deferred);
  };
  // A client may have a tool of this name itself.
  std::string name = "tool_search";
  for (int i = 2; is_taken(name); ++i) name = "tool_search_" + std::to_string(i);
  auto search =
      std::make_shared<ToolSearch>(std::move(deferred), std::move(name), options.most_found);
  request.tools.push_back(search->tool());
  return search;
}

ToolSearch::ToolSearch(std::vector<Tool> deferred, std::string name, std::size_t most_found)
    : deferred_(std::move(deferred)),
      index_(deferred_),
      most_found_(most_found),
      tool_(search_tool(std::move(name), deferred_)),
      is_found_(deferred_.size()) {}

void ToolSearch::add_found(std::vector<Tool>& tools) {
  const std::lock_guard lock(mutex_);
  for (const std::size_t i : std::exchange(new_ones_, {})) {
    tools.push_back(deferred_[i]);
    // The result of the search has described it.
    tools.back().is_listed = false;
  }
}

Expected<std::vector<Tool>> ToolSearch::tools(const ToolContext& /*context*/) {
  return std::vector<Tool>{tool_};
}

Expected<ToolOutput> ToolSearch::call(const std::string& /*tool*/, const json::Object& arguments,
                                      const ToolContext& /*context*/) {
  const json::Value* const query = arguments.find("query");
  const std::vector<std::size_t> found = index_.search(
      query == nullptr || query->if_string() == nullptr ? "" : *query->if_string(), most_found_);
  if (found.empty()) {
    return ToolOutput{"No tool has these words. Try others, such as words of the tools' names."};
  }
  std::string text = "These tools can be called now:";
  const std::lock_guard lock(mutex_);
  for (const std::size_t i : found) {
    text += "\n" + json::to_string(described(deferred_[i]));
    // A tool that is found twice is described twice, but added once.
    if (!is_found_[i]) new_ones_.push_back(i);
    is_found_[i] = true;
  }
  return ToolOutput{std::move(text)};
}

}  // namespace tenon::chat
