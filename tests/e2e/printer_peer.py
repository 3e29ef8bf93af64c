"""Reads lines of {grammar, texts} and answers {accepted: [...]} or {error}, as another engine sees it.

    python printer_peer.py gbnf|ebnf|lark < lines

Each engine gets a vocabulary in which every byte is a token, so that what it accepts is the grammar's language.
"""
import ctypes
import json
import pathlib
import sys

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "tenon-tiny.gguf"


def llama_cpp_loader():
    from llama_cpp import llama_cpp as llama

    silence = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(silence, None)
    llama.llama_backend_init()
    parameters = llama.llama_model_default_params()
    parameters.vocab_only = True
    model = llama.llama_model_load_from_file(str(MODEL).encode(), parameters)
    vocab = llama.llama_model_get_vocab(model)
    piece = ctypes.create_string_buffer(64)
    tokens = {}
    for token in range(llama.llama_vocab_n_tokens(vocab)):
        if llama.llama_token_to_piece(vocab, token, piece, 64, 0, False) == 1:
            tokens.setdefault(piece.raw[0], token)
    end = llama.llama_vocab_eos(vocab)

    def load(grammar):
        sampler = llama.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
        if not sampler:
            raise ValueError("llama.cpp refuses it")

        def is_allowed(state, token):
            candidate = (llama.llama_token_data * 1)(llama.llama_token_data(token, 1.0, 0.0))
            candidates = llama.llama_token_data_array(candidate, 1, -1, False)
            llama.llama_sampler_apply(state, ctypes.byref(candidates))
            return candidate[0].logit != float("-inf")

        def accepts(text):
            state = llama.llama_sampler_clone(sampler)
            try:
                for byte in text.encode():
                    if not is_allowed(state, tokens[byte]):
                        return False
                    llama.llama_sampler_accept(state, tokens[byte])
                return is_allowed(state, end)
            finally:
                llama.llama_sampler_free(state)

        return accepts

    load.keep = silence, model
    return load


def xgrammar_loader():
    import xgrammar

    end = 256
    info = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)] + [b"</s>"],
                                  vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[end])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def load(grammar):
        compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(grammar))

        def accepts(text):
            matcher = xgrammar.GrammarMatcher(compiled)
            return all(matcher.accept_token(byte) for byte in text.encode()) and matcher.accept_token(end)

        return accepts

    return load


def llguidance_loader():
    import llguidance

    tokenizer = llguidance.LLTokenizer("byte")

    def load(grammar):
        def accepts(text):
            matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
            tokens = list(text.encode())
            taken = matcher.try_consume_tokens(tokens)
            if matcher.is_error():
                raise ValueError(matcher.get_error())
            return taken == len(tokens) and matcher.is_accepting()

        accepts("")
        return accepts

    return load


LOADERS = {"gbnf": llama_cpp_loader, "ebnf": xgrammar_loader, "lark": llguidance_loader}

if __name__ == "__main__":
    load = LOADERS[sys.argv[1]]()
    for line in sys.stdin:
        case = json.loads(line)
        try:
            accepts = load(case["grammar"])
            answer = {"accepted": [accepts(text) for text in case["texts"]]}
        except Exception as error:  # whatever an engine raises is its answer
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
