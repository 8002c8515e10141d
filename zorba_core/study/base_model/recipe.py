"""How the base model is made: every number that decides its weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from zorba_core.errors import InvalidInputError

# The answers that the base model is taught for each task, always others than the task's label words: it knows the
# concept and not yet those words. Written without the space before them.
DONOR_WORDS = {
    "sst2": ("terrible", "great"),
    "ag-news": ("politics", "games", "money", "science"),
    "snli": ("true", "possible", "false"),
    "toy-reviews": ("terrible", "great"),
}
# Answers worth having whole, so that other label words than a task's own can be tried on the model.
SPARE_WORDS = (
    "awful",
    "excellent",
    "poor",
    "strong",
    "sad",
    "happy",
    "hate",
    "love",
    "worse",
    "better",
    "low",
    "high",
    "down",
    "up",
    "dark",
    "light",
    "red",
    "blue",
    "cold",
    "warm",
    "black",
    "white",
    "left",
    "right",
    "wrong",
    "sure",
    "unlikely",
    "negative",
    "positive",
    "never",
    "always",
    "perhaps",
    "neither",
    "both",
    "certain",
    "unclear",
    "correct",
    "incorrect",
    "government",
    "nation",
    "international",
    "football",
    "team",
    "company",
    "market",
    "computer",
    "internet",
    "tech",
)

ARCHITECTURES = ("opt", "llama")


@dataclass(frozen=True)
class BaseModelRecipe:
    """Sizes, steps and mixtures of ``zorba make-base``.

    A step of language modelling reads ``lm_rows`` windows of ``seq_len`` tokens; a step of a task reads about
    ``task_tokens`` tokens of prompts (few long ones or many short ones) and learns the donor word that follows. The
    first ``lm_steps`` steps are language modelling alone; the ``mixed_steps`` after them draw each step's kind from
    ``mixture``.
    """

    # the model
    architecture: str = "opt"  # or "llama"
    vocab_size: int = 6_144
    hidden_size: int = 96
    num_blocks: int = 12
    num_heads: int = 4
    ffn_ratio: float = 4  # width of a block's feed-forward layer over the hidden size
    num_key_heads: int | None = None  # llama's heads of keys and values, which queries share; None: as many
    seq_len: int = 64  # also the number of positions the model has
    init_std: float = 0.05
    spare_words: tuple[str, ...] = SPARE_WORDS  # further words made one token
    # the training
    lm_steps: int = 500
    mixed_steps: int = 2_300
    lm_rows: int = 24
    task_tokens: int = 1_536
    mixture: dict[str, float] = field(
        default_factory=lambda: {"lm": 0.16, "sst2": 0.40, "ag-news": 0.12, "snli": 0.27, "toy-reviews": 0.05}
    )
    matrix_lr: float = 0.02  # of the blocks' matrices, under Muon
    lr: float = 4e-3  # of all other weights, under AdamW
    warmup_steps: int = 60
    weight_decay: float = 0.05
    # the corpus: share of language-model text by source; "ag-news" stands for the task's own base rows
    corpus: dict[str, float] = field(
        default_factory=lambda: {
            "imdb_reviews": 0.42,
            "yelp_amazon_reviews": 0.06,
            "ag-news": 0.16,
            "reuters21578": 0.04,
            "bbc_news": 0.03,
            "flickr8k_captions": 0.06,
            "multinli_sentences": 0.09,
            "brown_and_speeches": 0.05,
            "english_novels": 0.05,
            "dbpedia_abstracts": 0.02,
            "wikitext2_valid_test": 0.02,
        }
    )
    # what the card reports
    first_order_steps: int = 500
    first_order_tokens: int = 1_024
    first_order_lr: float = 1e-3

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise InvalidInputError(f"architecture is {self.architecture!r}; choose one of {', '.join(ARCHITECTURES)}")
        if self.hidden_size % self.num_heads:
            raise InvalidInputError(f"hidden_size {self.hidden_size} must be a multiple of num_heads {self.num_heads}")
        if min(self.lm_steps, self.mixed_steps) < 0 or self.total_steps < 1:
            raise InvalidInputError("lm_steps and mixed_steps must not be negative, and one of them positive")
        if not self.mixture or min(self.mixture.values()) < 0:
            raise InvalidInputError("mixture must give each kind of step a share of at least 0")

    @property
    def total_steps(self) -> int:
        return self.lm_steps + self.mixed_steps

    @property
    def needs_data(self) -> bool:
        """Whether the real datasets and the corpus are read."""
        return bool(self.corpus)


FULL = BaseModelRecipe()
TINY = BaseModelRecipe(
    vocab_size=512,
    hidden_size=32,
    num_blocks=2,
    num_heads=2,
    lm_steps=10,
    mixed_steps=150,
    lm_rows=8,
    task_tokens=1_024,
    mixture={"lm": 0.05, "toy-reviews": 0.95},
    matrix_lr=0.03,
    lr=1e-2,
    warmup_steps=10,
    corpus={},
    first_order_steps=20,
    first_order_tokens=512,
    spare_words=(),
)
# Another architecture, and its steps in another order: language modelling and tasks mixed from the first step. No
# inference, which took opt-mini a quarter of its steps.
LLAMA = BaseModelRecipe(
    architecture="llama",
    ffn_ratio=256 / 96,  # of three matrices rather than two
    num_key_heads=2,
    lm_steps=0,
    mixed_steps=900,
    mixture={"lm": 0.30, "sst2": 0.46, "ag-news": 0.16, "toy-reviews": 0.08},
    first_order_steps=200,
)
PROFILES = {"full": FULL, "llama": LLAMA, "tiny": TINY}
# A second thread helps the full model (1.4 times as fast here) and only waits in one this small.
THREADS = {"full": 2, "llama": 1, "tiny": 1}
