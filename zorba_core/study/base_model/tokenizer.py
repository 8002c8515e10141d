"""The base model's tokenizer: byte-level BPE on lower-cased text, in which every label word is one token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from zorba_core.errors import RunError

# OPT's special tokens under OPT's ids; like OPT's tokenizer, every text starts with </s>.
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
PAD_ID, START_ID = 1, 2
# A word becomes one token when BPE meets it often enough. This many copies of each label word join the texts.
_LABEL_WORD_COPIES = 5_000


def build_tokenizer(
    texts: Iterable[str], words: Iterable[str], vocab_size: int, seq_len: int
) -> PreTrainedTokenizerFast:
    """Train on ``texts``; each of ``words``, with a space before it, is one token.

    Text is lower-cased: a model this small has no vocabulary to spare for capitals.

    Raises:
        RunError: the vocabulary is too small for a word.
    """
    words = sorted({word.lower() for word in words})
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_with_words(texts, words), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="</s> $A", pair="</s> $A </s> $B", special_tokens=[("</s>", START_ID)]
    )
    for word in words:
        pieces = tokenizer.encode(" " + word, add_special_tokens=False).tokens
        if len(pieces) != 1:
            raise RunError(f"a vocabulary of {vocab_size} splits the label word {word!r} into {pieces}: make it larger")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="</s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        model_max_length=seq_len,
        padding_side="right",
        truncation_side="right",
        clean_up_tokenization_spaces=False,
    )


def _with_words(texts: Iterable[str], words: list[str]) -> Iterator[str]:
    yield from texts
    line = "".join(" " + word for word in words)
    for _ in range(_LABEL_WORD_COPIES // 100):
        yield line * 100
