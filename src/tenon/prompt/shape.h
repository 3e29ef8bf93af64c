#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/json/value.h"
#include "tenon/prompt/capabilities.h"

namespace tenon::prompt {

/// What shape() did.
struct Shaping {
  /// A sentence for each thing that was done, but for empty calls, arguments and tools that are
  /// written in another way.
  std::vector<std::string> log;
  /// Ids of calls that were rewritten: as the client wrote them, as the model reads them.
  std::vector<std::pair<std::string, std::string>> ids;
};

/// The tool-call format that writes what the template cannot.
struct Writer {
  const format::Format* format = nullptr;  ///< Null: what the template cannot is left out.
  /// The model has learnt no form of calls: a first exchange shows it one that is made.
  bool shows_call = false;
  std::string result_role;  ///< Whose turn results are; "": they become the user's lines (below).
  /// What quotes the format's own markers in what is written: nothing that data can hold.
  std::string own_begin;
  std::string own_end;
};

/// Rewrites in `context` (the variables of a chat template: `messages`, `tools`, ...) what a
/// template of these capabilities refuses, drops or garbles. A pure function: the same history
/// always gives the same prompt. A message is rewritten by what stands before and directly beside
/// it, never by what comes later, so that a longer history begins as the shorter one does.
///
/// - Tools come as `{"type": "function", "function": {...}}`; what the template fails without is
///   filled in, and of their schemas that which it drops or fails at stands in descriptions.
/// - `content: null`, or none beside calls, becomes "" (the other way round where the template
///   writes calls only beside null). Lists of text become text where the
///   template takes none, text becomes a list where it takes only that. Objects as results of tools
///   become their JSON text.
/// - The role developer becomes system where the template does not know it. System text goes before
///   the first user's text where there is no system role; several system messages become one, and
///   one in the middle a user's, where the template takes no such.
/// - Where the template knows no tools, they are described in the system message, with a call of
/// the
///   writer's format as example, and where the writer shows a call, a user's question and its call
///   come before a user's first message. Where it writes no calls, the format writes them into the
///   assistant's text, and their results, where the template cannot take these by themselves.
/// - An assistant's message of no text is left out, and text beside calls comes in a message before
///   them, where the template does not take these; reasoning and text beside calls become one piece
///   of reasoning.
/// - Results of several calls stand in the order of the calls where the prompt does not say which
///   call each answers. Messages between a call and its result come behind the result where the
///   template would not know it there.
/// - Results of tools get the `name` of their call. Those of no call where the template
///   cannot take them, and all where it has no role for them, become a user message of lines `Tool
///   'name' returned: ...`.
/// - The rule of Llama 3.1: where the template takes one call per turn, several calls are taken out
///   of an assistant's message, whose text stays, and their results become such a user message. A
///   single call stays as it is.
/// - Ids get the form that the template demands, or else, where it writes them, the one that the
///   writer's format gives; the same ones in calls and results.
/// - `arguments` that are JSON text of an object become that object, and the other way round, as
///   the template demands; where it takes both, they stay what they are: the model's own bytes.
///   What is no object becomes a member `arguments` of one, where only objects are taken.
/// - Between results and a user's message comes an empty answer, where the template wants one.
/// - Where roles must alternate, neighbours of one role are joined, and a conversation that begins
///   with the assistant begins with an empty user message. Where turns of calls do not count there,
///   an empty message comes between two of one role that such turns part.
/// - A conversation without a user's message gets an empty one, or its system text becomes one,
///   where the template looks for one.
[[nodiscard]] Shaping shape(json::Object& context, const Capabilities& capabilities,
                            const Writer& writer = {});

}  // namespace tenon::prompt
