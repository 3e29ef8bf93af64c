#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/json/value.h"
#include "tenon/prompt/capabilities.h"

namespace tenon::prompt {

/// What shape() has changed.
struct Shaping {
  /// A sentence for each kind of change, except for empty lists of calls, empty arguments and empty
  /// tools that are only written in another way.
  std::vector<std::string> log;
  /// Ids of calls that were rewritten: the client's id, and the one that the model reads.
  std::vector<std::pair<std::string, std::string>> ids;
};

/// The tool-call format that writes what the template cannot express.
struct Writer {
  const format::Format* format = nullptr;  ///< Null: such parts are left out.
  /// The model has not learnt a form of calls, so a first exchange shows it an example.
  bool shows_call = false;
  std::string result_role;  ///< The role of results; "": they become lines of the user (below).
  /// The quotes around the format's own markers in text that is written. No data can contain them.
  std::string own_begin;
  std::string own_end;
};

/// Rewrites in `context` (the variables of a chat template: `messages`, `tools`, ...) what a
/// template with these capabilities refuses, leaves out or garbles. A pure function: the same
/// history always gives the same prompt. How a message is rewritten depends on what stands before
/// and directly beside it, never on what comes later, so a longer history begins as the shorter one
/// does.
///
/// Each rule applies only if the template needs it:
///
/// - Tools get the shape `{"type": "function", "function": {...}}`. Members without which the
///   template fails are added. Parts of schemas that it leaves out or fails at are put into
///   descriptions.
/// - `content: null`, and absent content beside calls, becomes "", or the other way round if the
///   template writes calls only beside null. Lists of text become text, or text becomes a list.
///   Results of tools that are objects become their JSON text.
/// - The role developer becomes system. If there is no system role, the system's text goes before
///   the first user's text. Several system messages become one, and one in the middle becomes a
///   user's.
/// - If the template writes no tools, the system message describes them, with an example of a call
///   in the writer's format. If the writer shows a call, a question and its call also come before
///   the user's first message. If the template writes no calls, the format writes them into the
///   assistant's text, and their results too unless the template can write results without calls.
/// - Calls of one turn that stand in several messages, before all of their results, come into one
///   message; if the template writes one call per turn, each result goes behind its call.
/// - An assistant message without text is left out. Text beside calls goes into a message before
///   them. Reasoning and text beside calls become one piece of reasoning.
/// - Results of several calls are put in the order of the calls if the prompt does not say which
///   call each one answers. Messages between a call and its result are moved behind the result.
/// - Results get the `name` of their call. Results without a call, and all results if there is no
///   role for them, become a user message with lines `Tool 'name' returned: ...`.
/// - The rule of Llama 3.1: if the template writes only one call per turn, several calls are
///   removed from an assistant message, whose text stays, and their results become such a user
///   message. A single call stays as it is.
/// - Ids get the form that the template demands. If it demands none but writes ids, they get the
///   form of the writer's format. Calls and results get the same ids.
/// - `arguments` with the JSON text of an object become that object, or an object becomes text. If
///   the template writes both, they stay as they are, which keeps the model's own bytes. If the
///   template writes only objects, other arguments become the member `arguments` of one.
/// - An empty answer is put between results and a user message.
/// - If roles must alternate, neighbours with one role are joined, and a conversation that begins
///   with the assistant gets an empty user message first. If turns with calls do not count for
///   that, an empty message is put between two messages of one role that such turns separate.
/// - A conversation without a user message gets an empty one, or its system text becomes one.
[[nodiscard]] Shaping shape(json::Object& context, const Capabilities& capabilities,
                            const Writer& writer = {});

}  // namespace tenon::prompt
