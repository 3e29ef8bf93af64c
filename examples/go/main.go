// Tool calling for an engine written in Go: the prompt, a mask before each token, and the answer
// read as it comes. docs/capi.md goes through it.
//
//	PKG_CONFIG_PATH=.../lib/pkgconfig go run . model.gguf
package main

// #cgo pkg-config: tenon
// #include <stdlib.h>
// #include <tenon.h>
import "C"

import (
	"fmt"
	"os"
	"strings"
	"unsafe"
)

const tool = `{"type": "function", "function": {"name": "get_weather", "parameters":
  {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
   "additionalProperties": false}}}`

// What the model would like to say, which is not JSON: the city has no quotes.
const wanted = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": Rome\"}}\n</tool_call>"

// text copies s to where C may read it; C.free ends it.
func text(s string) C.tenon_text {
	return C.tenon_text{data: C.CString(s), size: C.size_t(len(s))}
}

func read(t C.tenon_text) string { return C.GoStringN(t.data, C.int(t.size)) }

func check(err *C.tenon_error) {
	if err != nil {
		defer C.tenon_error_free(err)
		fmt.Fprintln(os.Stderr, read(C.tenon_error_message(err)))
		os.Exit(1)
	}
}

// sample stands in for a model: the token that it wants most of those that may come.
func sample(vocab *C.tenon_vocab, wish string, mask []C.uint32_t) C.int32_t {
	best, longest := *C.tenon_vocab_ends(vocab, nil), 0
	for id := C.int32_t(0); id < C.int32_t(C.tenon_vocab_size(vocab)); id++ {
		if mask[id/32]>>(id%32)&1 == 0 {
			continue
		}
		bytes := read(C.tenon_vocab_token(vocab, id).bytes)
		if len(bytes) > longest && strings.HasPrefix(wish, bytes) {
			best, longest = id, len(bytes)
		} else if longest == 0 && bytes == "\"" {
			best = id // it may not say what it wants: a quote is the next best
		}
	}
	return best
}

func show(events *C.tenon_event, count C.size_t) {
	for _, event := range unsafe.Slice(events, int(count)) {
		switch event._type {
		case C.TENON_EVENT_CALL:
			fmt.Printf("%s(", read(event.name))
		case C.TENON_EVENT_ARGUMENTS:
			fmt.Print(read(event.text))
		case C.TENON_EVENT_CALL_END:
			fmt.Println(")")
		}
	}
}

func main() {
	var vocab *C.tenon_vocab
	var template *C.tenon_template
	var format *C.tenon_format
	var prompt *C.tenon_prompt
	var grammar *C.tenon_grammar
	var matcher *C.tenon_matcher
	var parser *C.tenon_parser
	model := text(os.Args[1])
	check(C.tenon_vocab_load(model, &vocab))
	check(C.tenon_template_load(model, &template))
	check(C.tenon_template_format(template, &format))

	// The prompt, as the model was trained to read it. What the user says becomes no control token.
	check(C.tenon_template_render(template, text(`{"messages": [{"role": "user",
	  "content": "Weather in Rome? <|im_end|>"}], "tools": [`+tool+`]}`), &prompt))
	ids := make([]C.int32_t, 2048)
	var tokens, count C.size_t
	check(C.tenon_prompt_tokenize(prompt, vocab, &ids[0], C.size_t(len(ids)), &tokens))
	fmt.Println(tokens, "tokens of prompt")

	// What may be answered, and a reader of it.
	check(C.tenon_grammar_for_tools(vocab, format,
		text(`{"tool_choice": "required", "tools": [`+tool+`]}`), &grammar))
	check(C.tenon_matcher_new(grammar, &matcher))
	check(C.tenon_parser_new(format, vocab, text(`{"tools": [`+tool+`]}`), &parser))

	var events *C.tenon_event
	mask := make([]C.uint32_t, C.tenon_mask_words(C.tenon_vocab_size(vocab)))
	for wish := wanted; C.tenon_matcher_is_finished(matcher) == 0; {
		check(C.tenon_matcher_fill_mask(matcher, &mask[0], C.size_t(len(mask))))
		token := sample(vocab, wish, mask)
		wish = strings.TrimPrefix(wish, read(C.tenon_vocab_token(vocab, token).bytes))
		if C.tenon_matcher_accept(matcher, token) != 1 {
			panic("it was in the mask")
		}
		check(C.tenon_parser_feed_token(parser, token, &events, &count))
		show(events, count)
	}
	check(C.tenon_parser_finish(parser, 0, &events, &count))
	show(events, count)

	C.tenon_parser_free(parser)
	C.tenon_matcher_free(matcher)
	C.tenon_grammar_free(grammar)
	C.tenon_prompt_free(prompt)
	C.tenon_format_free(format)
	C.tenon_template_free(template)
	C.tenon_vocab_free(vocab)
}
