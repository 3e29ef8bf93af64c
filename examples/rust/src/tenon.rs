//! What this example needs of tenon.h, declared by hand.
use std::ffi::{c_char, c_int};
use std::fmt;
use std::ptr::{null, null_mut};

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque!(Error, Vocab, Template, Format, Prompt, Grammar, Matcher, Parser);

/// tenon_text: it lives as long as what the header says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    data: *const c_char,
    size: usize,
}

impl Text {
    pub fn of(text: &str) -> Text {
        Text { data: text.as_ptr().cast(), size: text.len() }
    }
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        std::slice::from_raw_parts(self.data.cast(), self.size)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(unsafe { self.bytes() }))
    }
}

#[repr(C)]
pub struct Token {
    pub bytes: Text,
    pub kind: c_int,
}

pub const EVENT_CALL: u32 = 3;
pub const EVENT_ARGUMENTS: u32 = 4;
pub const EVENT_CALL_END: u32 = 5;

#[repr(C)]
pub struct Event {
    size: u32,
    pub kind: u32,
    pub call: u32,
    pub is_incomplete: u32,
    pub text: Text,
    pub id: Text,
    pub name: Text,
}

extern "C" {
    pub fn tenon_error_message(error: *const Error) -> Text;
    pub fn tenon_error_free(error: *mut Error);
    pub fn tenon_vocab_load(path: Text, vocab: *mut *mut Vocab) -> *mut Error;
    pub fn tenon_vocab_free(vocab: *mut Vocab);
    pub fn tenon_vocab_size(vocab: *const Vocab) -> usize;
    pub fn tenon_vocab_token(vocab: *const Vocab, id: i32) -> Token;
    pub fn tenon_vocab_ends(vocab: *const Vocab, count: *mut usize) -> *const i32;
    pub fn tenon_template_load(path: Text, template: *mut *mut Template) -> *mut Error;
    pub fn tenon_template_format(template: *const Template, format: *mut *mut Format) -> *mut Error;
    pub fn tenon_template_render(template: *const Template, request: Text, prompt: *mut *mut Prompt) -> *mut Error;
    pub fn tenon_template_free(template: *mut Template);
    pub fn tenon_format_free(format: *mut Format);
    pub fn tenon_prompt_tokenize(
        prompt: *const Prompt, vocab: *const Vocab, ids: *mut i32, capacity: usize, count: *mut usize,
    ) -> *mut Error;
    pub fn tenon_prompt_free(prompt: *mut Prompt);
    pub fn tenon_grammar_for_tools(
        vocab: *const Vocab, format: *const Format, request: Text, grammar: *mut *mut Grammar,
    ) -> *mut Error;
    pub fn tenon_grammar_free(grammar: *mut Grammar);
    pub fn tenon_matcher_new(grammar: *const Grammar, matcher: *mut *mut Matcher) -> *mut Error;
    pub fn tenon_matcher_fill_mask(matcher: *mut Matcher, mask: *mut u32, words: usize) -> *mut Error;
    pub fn tenon_matcher_accept(matcher: *mut Matcher, token: i32) -> c_int;
    pub fn tenon_matcher_is_finished(matcher: *const Matcher) -> c_int;
    pub fn tenon_matcher_free(matcher: *mut Matcher);
    pub fn tenon_parser_new(
        format: *const Format, vocab: *const Vocab, options: Text, parser: *mut *mut Parser,
    ) -> *mut Error;
    pub fn tenon_parser_feed_token(
        parser: *mut Parser, token: i32, events: *mut *const Event, count: *mut usize,
    ) -> *mut Error;
    pub fn tenon_parser_finish(
        parser: *mut Parser, is_truncated: c_int, events: *mut *const Event, count: *mut usize,
    ) -> *mut Error;
    pub fn tenon_parser_free(parser: *mut Parser);
}

/// Ends the program where there is an error.
pub unsafe fn check(error: *mut Error) {
    if !error.is_null() {
        eprintln!("{}", tenon_error_message(error));
        tenon_error_free(error);
        std::process::exit(1);
    }
}

/// The handle that `make` gives.
pub unsafe fn handle<T>(make: impl FnOnce(*mut *mut T) -> *mut Error) -> *mut T {
    let mut handle = null_mut();
    check(make(&mut handle));
    handle
}

/// The events that `feed` gives, good until the parser's next call.
pub unsafe fn events<'a>(feed: impl FnOnce(*mut *const Event, *mut usize) -> *mut Error) -> &'a [Event] {
    let (mut events, mut count) = (null(), 0);
    check(feed(&mut events, &mut count));
    if count == 0 { &[] } else { std::slice::from_raw_parts(events, count) }
}
