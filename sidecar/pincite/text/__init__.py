"""Pure functions on text: decoding, tokens, sentences, numbers, overlap."""
