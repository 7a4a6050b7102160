"""The sentences that Python makes from values, on a reader's own data; all others of a page are typed (`prose`)."""

SENTENCES = {
    "highest": "On `{study}` **{best}** has the highest MAP@R, {score} %.",
    "tied": "{losses} {tie} with it.",
    "untrained": "Untrained MAP@R is {score} %; {count} of {losses} losses {exceed} it{more}.",
    "forgiving": (
        "On `{study}` {least} depends least on its hyperparameters, with a median trial that reaches {low} % of its "
        "best; {most} depends most on them ({high} %)."
    ),
    "chosen": "{loss} does best of {count} losses on the validation classes.",
    "found": (
        "With it, the models of {folds} folds joined, on the test classes, which chose nothing, the nearest other "
        "photo is of the same class for {precision} % of the photos (P@1); MAP@R, which also counts how many of the "
        "others come next, is {score} %."
    ),
    "higher": "Not sure: on the test classes {losses} scored higher, which validation could not know.",
    "alike": "Not sure: {losses} cannot be distinguished from it, so take what is simplest to train.",
    "trunk": (
        "One model against the trunk alone, {trunk}, at the same size: the trunk reaches P@1 {precision} % and MAP@R "
        "{score} % without any training."
    ),
    "gain": "Training brings {gain:+.2f} points of MAP@R{chance} and {more:+.2f} of P@1.",
    "place": "**{label}** is number {place} of {count} methods by concatenated MAP@R, {score} %{best}.",
    "tested": (
        "Its rank may be from {low:.0f} to {high:.0f}, and by tests that count {luck} it is better than {better}, "
        "worse than {worse} and tied with {tied} of them."
    ),
}


def say(sentence: str, **values: object) -> str:
    """A sentence by its name, with these values in it."""
    return SENTENCES[sentence].format(**values)
