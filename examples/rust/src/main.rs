//! Tool calling for an engine written in Rust: the prompt, a mask before each token, and the answer
//! read as it comes. docs/capi.md goes through it.
//!
//!     PKG_CONFIG_PATH=.../lib/pkgconfig cargo run -- model.gguf
mod tenon;

use std::ptr::null_mut;
use tenon::{check, handle, Text};

const TOOL: &str = r#"{"type": "function", "function": {"name": "get_weather", "parameters":
  {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
   "additionalProperties": false}}}"#;

/// What the model would like to say, which is not JSON: the city has no quotes.
const WANTED: &[u8] =
    b"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": Rome\"}}\n</tool_call>";

/// Stands in for a model: the token that it wants most of those that may come.
unsafe fn sample(vocab: *mut tenon::Vocab, wish: &[u8], mask: &[u32]) -> i32 {
    let mut best = *tenon::tenon_vocab_ends(vocab, null_mut());
    let mut longest = 0;
    for id in 0..tenon::tenon_vocab_size(vocab) as i32 {
        if mask[id as usize / 32] >> (id % 32) & 1 == 0 {
            continue;
        }
        let bytes = tenon::tenon_vocab_token(vocab, id).bytes.bytes();
        if bytes.len() > longest && wish.starts_with(bytes) {
            best = id;
            longest = bytes.len();
        } else if longest == 0 && bytes == b"\"" {
            best = id; // it may not say what it wants: a quote is the next best
        }
    }
    best
}

fn show(events: &[tenon::Event]) {
    for event in events {
        match event.kind {
            tenon::EVENT_CALL => print!("{}(", event.name),
            tenon::EVENT_ARGUMENTS => print!("{}", event.text),
            tenon::EVENT_CALL_END => println!(")"),
            _ => {} // text, reasoning, and what later versions tell
        }
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("the file of a model");
    unsafe {
        let model = Text::of(&path);
        let vocab = handle(|out| tenon::tenon_vocab_load(model, out));
        let template = handle(|out| tenon::tenon_template_load(model, out));
        let format = handle(|out| tenon::tenon_template_format(template, out));

        // The prompt, as the model was trained to read it. What the user says becomes no control token.
        let request = format!(
            r#"{{"messages": [{{"role": "user", "content": "Weather in Rome? <|im_end|>"}}], "tools": [{TOOL}]}}"#
        );
        let prompt = handle(|out| tenon::tenon_template_render(template, Text::of(&request), out));
        let (mut ids, mut count) = ([0i32; 2048], 0);
        check(tenon::tenon_prompt_tokenize(prompt, vocab, ids.as_mut_ptr(), ids.len(), &mut count));
        println!("{count} tokens of prompt");

        // What may be answered, and a reader of it.
        let request = format!(r#"{{"tools": [{TOOL}], "tool_choice": "required"}}"#);
        let grammar = handle(|out| tenon::tenon_grammar_for_tools(vocab, format, Text::of(&request), out));
        let matcher = handle(|out| tenon::tenon_matcher_new(grammar, out));
        let options = format!(r#"{{"tools": [{TOOL}]}}"#);
        let parser = handle(|out| tenon::tenon_parser_new(format, vocab, Text::of(&options), out));

        let mut mask = vec![0u32; (tenon::tenon_vocab_size(vocab) + 31) / 32];
        let mut wish = WANTED;
        while tenon::tenon_matcher_is_finished(matcher) == 0 {
            check(tenon::tenon_matcher_fill_mask(matcher, mask.as_mut_ptr(), mask.len()));
            let token = sample(vocab, wish, &mask);
            let bytes = tenon::tenon_vocab_token(vocab, token).bytes.bytes();
            wish = wish.strip_prefix(bytes).unwrap_or(wish);
            assert_eq!(tenon::tenon_matcher_accept(matcher, token), 1, "it was in the mask");
            show(tenon::events(|out, count| tenon::tenon_parser_feed_token(parser, token, out, count)));
        }
        show(tenon::events(|out, count| tenon::tenon_parser_finish(parser, 0, out, count)));

        tenon::tenon_parser_free(parser);
        tenon::tenon_matcher_free(matcher);
        tenon::tenon_grammar_free(grammar);
        tenon::tenon_prompt_free(prompt);
        tenon::tenon_format_free(format);
        tenon::tenon_template_free(template);
        tenon::tenon_vocab_free(vocab);
    }
}
