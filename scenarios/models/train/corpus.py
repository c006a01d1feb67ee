#!/usr/bin/env python3
"""The corpus of tandem-tiny: plain English about a small world, made from a seed.

Every document is a walk through a world of people, places, objects and numbers: facts are stated once, other
sentences pass, and later the facts are asked for or repeated, so that a reader must look far back to go on. Counting,
lists and small stories with sums stand between. Drills and recitals only teach to look back. Nothing is taken from any
other text.

`document(random, tokens_wanted, count)` returns the sentences of one document; `recall_question` returns a document
whose last question asks for a fact exactly `distance` tokens back, as needle-in-a-haystack benchmarks do.
"""

import random as random_module

PEOPLE = """Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karin Leo Mara Nils Olga Paul Rosa Simon Tilda Victor
Wanda Yusuf Zoe Adam Bella Carl Dora Erik Flora Georg Helen Ivan Julia Klaus Lena Martin""".split()
CITIES = """Oslo Paris Rome Cairo Lima Delhi Tokyo Berlin Madrid Dublin Athens Vienna Prague Warsaw Lisbon Nairobi
Sydney Boston Quito Havana""".split()
JOBS = """baker doctor teacher farmer pilot painter singer driver nurse judge tailor gardener sailor writer cook
miner""".split()
ANIMALS = "dog cat horse rabbit goat parrot turtle duck sheep hen pig mouse".split()
FOODS = "bread soup rice cheese honey fish cake beans salad noodles eggs porridge".split()
FRUITS = "apples pears plums cherries lemons grapes figs melons".split()
COLOURS = "red blue green yellow black white brown grey orange purple".split()
OBJECTS = "lamp book key cup drum coat hat clock chair rope kettle map brush bell knife basket mirror ladder".split()
ROOMS = "kitchen attic cellar garden hall library garage bedroom tower barn stable shed".split()
CONTAINERS = "box chest safe door gate locker drawer cabinet".split()
TIMES = "morning afternoon evening night spring summer autumn winter".split()
WEATHER = "rain snow wind fog sunshine".split()
PLACES = "river bridge market station harbour forest hill school church square field road".split()
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
           "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]
ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth"]
OPENINGS = ["", "", "", "Everyone knows that ", "It is said that ", "Remember that ", "Note that "]


def capital(sentence):
    """Returns the sentence with its first letter in upper case."""
    return sentence[0].upper() + sentence[1:]


class Fact:
    """A fact of the world: `statement` ends in `answer` and a full stop; `question` asks for `answer`."""

    def __init__(self, key, statement, question, answer):
        self.key, self.statement, self.question, self.answer = key, statement, question, answer


RELATIONS = range(9)


def draw_fact(random, relations=RELATIONS):
    """Returns a fact of one of the relations with a random subject and value. Its key names what it tells about, so
    that no document says two different things about the same."""
    person = random.choice(PEOPLE)
    thing = f"{random.choice(COLOURS)} {random.choice(OBJECTS)}"
    relation = random.choice(relations)
    if relation == 0:
        city = random.choice(CITIES)
        return Fact(("home", person), f"{person} lives in {city}", f"Where does {person} live?", city)
    if relation == 1:
        job = random.choice(JOBS)
        return Fact(("job", person), f"{person} works as a {job}", f"What does {person} work as?", f"a {job}")
    if relation == 2:
        animal = random.choice(ANIMALS)
        return Fact(("pet", person), f"the pet of {person} is a {animal}", f"What is the pet of {person}?",
                    f"a {animal}")
    if relation == 3:
        room = random.choice(ROOMS)
        return Fact(("place", thing), f"the {thing} is in the {room}", f"Where is the {thing}?", f"in the {room}")
    if relation == 4:
        container = f"{random.choice(COLOURS)} {random.choice(CONTAINERS)}"
        number = random.choice(NUMBERS)
        return Fact(("number", container), f"the number of the {container} is {number}",
                    f"What is the number of the {container}?", number)
    if relation == 5:
        food = random.choice(FOODS)
        return Fact(("food", person), f"{person} likes to eat {food}", f"What does {person} like to eat?", food)
    if relation == 6:
        age = random.choice(NUMBERS[6:])
        return Fact(("age", person), f"the age of {person} is {age}", f"What is the age of {person}?", age)
    if relation == 7:
        friend = random.choice([other for other in PEOPLE if other != person])
        return Fact(("friend", person), f"the best friend of {person} is {friend}",
                    f"Who is the best friend of {person}?", friend)
    return Fact(("owner", thing), f"the {thing} belongs to {person}", f"Who owns the {thing}?", person)


def state(random, fact):
    """Returns a sentence that states the fact."""
    return capital(random.choice(OPENINGS) + fact.statement + ".")


def ask(fact):
    """Returns the question about the fact with its answer."""
    return f"Question: {fact.question} Answer: {fact.answer}."


def repeat(random, fact):
    """Returns a sentence that says a known fact again."""
    return random.choice(["As we know, ", "Once more, ", "Again, "]) + fact.statement + "."


def filler(random):
    """Returns a sentence that tells nothing to be remembered."""
    pick = random.choice
    return pick([
        lambda: f"The {pick(WEATHER)} came over the {pick(PLACES)} in the {pick(TIMES)}.",
        lambda: f"In the {pick(TIMES)} the {pick(PLACES)} was quiet.",
        lambda: f"A {pick(ANIMALS)} slept near the {pick(PLACES)}.",
        lambda: f"Some people walked from the {pick(PLACES)} to the {pick(PLACES)}.",
        lambda: f"There was {pick(WEATHER)} all {pick(['day', 'week', 'month'])}, and the {pick(PLACES)} looked "
                f"{pick(COLOURS)}.",
        lambda: f"The old {pick(JOBS)} sang a song about the {pick(PLACES)}.",
        lambda: f"Two children played by the {pick(PLACES)} until {pick(['noon', 'dark', 'supper'])}.",
        lambda: f"Nobody was at the {pick(PLACES)}.",
        lambda: f"One {pick(COLOURS)} bird flew over the {pick(PLACES)} and the {pick(PLACES)}.",
        lambda: f"The {pick(PLACES)} is a good place in the {pick(TIMES)}.",
        lambda: f"After the {pick(WEATHER)} came the {pick(WEATHER)}.",
        lambda: f"They talked about {pick(FOODS)}, {pick(FRUITS)} and the {pick(WEATHER)}.",
    ])()


def counting(random):
    """Returns a sentence that counts up or down, by ones or by more."""
    step = random.choice([1, 1, 1, 2, 5, 10])
    first = random.randrange(0, 60)
    values = [first + step * index for index in range(random.randrange(4, 9))]
    if random.random() < 0.3:
        values.reverse()
        how = "down "
    else:
        how = ""
    by = "" if step == 1 else f" by {NUMBERS[step]}"
    return f"Count {how}from {values[0]} to {values[-1]}{by}: {', '.join(map(str, values))}."


def listing(random):
    """Returns a list of words with what is said of it: again, backwards, or one word of it."""
    words = random.sample(OBJECTS + ANIMALS + FOODS, random.randrange(3, 7))
    text = f"A list: {', '.join(words)}."
    for kind in random.sample(range(3), random.randrange(1, 3)):
        if kind == 0:
            text += f" The list again: {', '.join(words)}."
        elif kind == 1:
            text += f" The list backwards: {', '.join(reversed(words))}."
        else:
            index = random.randrange(len(words))
            text += f" The {ORDINALS[index]} word is {words[index]}."
    return text


def story(random):
    """Returns a small story with a sum."""
    person, fruit = random.choice(PEOPLE), random.choice(FRUITS)
    has, more = random.randrange(1, 11), random.randrange(1, 11)
    start = f"{person} went to the {random.choice(PLACES)} with {NUMBERS[has]} {fruit}."
    if random.random() < 0.5 or has == more:
        return f"{start} There {person} found {NUMBERS[more]} more. Now {person} has {NUMBERS[has + more]} {fruit}."
    has, less = max(has, more), min(has, more)
    start = f"{person} went to the {random.choice(PLACES)} with {NUMBERS[has]} {fruit}."
    return f"{start} There {person} ate {NUMBERS[less]}. Now {person} has {NUMBERS[has - less]} {fruit}."


class Walk:
    """A walk through a fresh world, sentence by sentence. `forbidden` keys are never told. A dense walk is full of
    facts and of questions about them; in another one both are rare, and what is asked for was mostly told long ago."""

    def __init__(self, random, forbidden=(), dense=False):
        self.random = random
        self.dense = dense
        self.facts = {}
        self.unasked = []
        self.forbidden = set(forbidden)
        # Documents differ in how much they ask: some are all questions and some are prose.
        self.asking = random.choice([0.2, 0.45, 0.7] if dense else [0.1, 0.2, 0.3])
        self.told = random.choice([0.25, 0.4] if dense else [0.02, 0.08])
        self.repeating = 0.1 if dense else 0.02
        self.first_told = 1 if dense else random.randrange(4, 13)
        # Where only few relations are told of, it takes the subject to tell one fact from another.
        self.relations = random.sample(RELATIONS, random.choice([1, 2, 3, len(RELATIONS)]))

    def new_fact(self):
        """Returns a fact that is not yet told."""
        for _ in range(30):
            fact = draw_fact(self.random, self.relations)
            if fact.key not in self.facts and fact.key not in self.forbidden:
                return fact
        # Nearly all that can be told of these relations is told.
        self.relations = RELATIONS
        return self.new_fact()

    def old_fact(self):
        """Returns a fact told before, mostly one that must be looked for far back: in a dense walk one that nothing has
        repeated since, else the one not mentioned for longest."""
        if self.dense:
            if self.unasked and self.random.random() < 0.7:
                return self.unasked.pop(self.random.randrange(len(self.unasked)))
            return self.random.choice(list(self.facts.values()))
        key = next(iter(self.facts)) if self.random.random() < 0.85 else self.random.choice(list(self.facts))
        self.facts[key] = self.facts.pop(key)  # in the order of their last mention
        return self.facts[key]

    def sentence(self):
        """Returns the next sentence."""
        draw = self.random.random()
        if draw < self.told or not self.facts or (draw < 0.5 and len(self.facts) < self.first_told):
            fact = self.new_fact()
            self.facts[fact.key] = fact
            self.unasked.append(fact)
            return state(self.random, fact)
        draw = self.random.random()
        if draw < self.asking:
            return ask(self.old_fact())
        if draw < self.asking + self.repeating:
            return repeat(self.random, self.old_fact())
        draw = self.random.random()
        if draw < 0.12:
            return counting(self.random)
        if draw < 0.24:
            return listing(self.random)
        if draw < 0.36:
            return story(self.random)
        return filler(self.random)


def document(random, tokens_wanted, count, dense=None):
    """Returns the sentences of a document of at least `tokens_wanted` tokens, as `count(text)` counts them. Short ones
    are dense unless said otherwise, so that the number of facts hardly depends on the length."""
    walk = Walk(random, dense=tokens_wanted <= 256 if dense is None else dense)
    sentences, tokens = [], 0
    while tokens < tokens_wanted:
        sentence = walk.sentence()
        sentences.append(sentence)
        tokens += count(sentence)
    return sentences


def drill(random, tokens_wanted, count):
    """Returns the sentences of a drill of at least `tokens_wanted` tokens: round after round of a few facts about few
    subjects and in few relations, then questions about any of them, so that neither the relation nor the subject alone,
    nor what was asked already, tells which fact is meant."""
    relations = random.sample(RELATIONS, random.choice([1, 1, 2, 3]))
    most = 4 if tokens_wanted <= 100 else 6
    facts, sentences, tokens = {}, [], 0
    while tokens < tokens_wanted:
        told = [draw_fact(random, relations) for _ in range(random.randrange(2, most + 1))]
        told = {fact.key: fact for fact in told if fact.key not in facts}
        if not told:
            relations = RELATIONS
            continue
        facts |= told
        asked = [random.choice(list(told.values())) for _ in told] + random.choices(list(facts.values()), k=2)
        turn = [state(random, fact) if random.random() < 0.3 else capital(fact.statement + ".")
                for fact in told.values()]
        turn += [ask(fact) if random.random() < 0.8 else repeat(random, fact) for fact in asked]
        if random.random() < 0.3:
            turn.insert(random.randrange(len(turn)), filler(random))
        sentences += turn
        tokens += sum(count(sentence) for sentence in turn)
    return sentences


def recital(random, tokens_wanted):
    """Returns words in random order, said again and again: as one sentence of at least `tokens_wanted` words."""
    words = PEOPLE + CITIES + JOBS + ANIMALS + FOODS + COLOURS + OBJECTS
    chosen = random.sample(words, random.randrange(8, min(len(words), max(10, tokens_wanted // 2))))
    return [" ".join(chosen * (tokens_wanted // len(chosen) + 1)) + "."]


def recall_question(seed, distance, longest, count):
    """Returns (prompt, answer): a document that ends in a question for a fact told `distance` tokens before.

    The distance is the number of tokens from the last one of the fact's value to the first one of the answer, and it
    is exact. The text before the fact is of random length, so that prompt and answer take at most `longest` tokens.
    """
    random = random_module.Random(seed)
    needle = draw_fact(random)
    question = f"Question: {needle.question} Answer:"
    # After the value come its full stop, the sentences between, the question, and then the answer.
    between_tokens = distance - 2 - count(question)
    statement = state(random, needle)
    room = longest - count(statement) - between_tokens - count(question) - count(f"{needle.answer}.")
    if between_tokens < 0 or room < 0:
        raise ValueError(f"distance {distance} does not fit {longest} tokens")
    walk = Walk(random, [needle.key])
    before, used, wanted = [], 0, random.randrange(room + 1)
    while True:
        sentence = walk.sentence()
        used += count(sentence)
        if used > wanted:
            break
        before.append(sentence)
    while True:
        between, left = [], between_tokens
        while left > 60:
            sentence = walk.sentence()
            if count(sentence) <= left:
                between.append(sentence)
                left -= count(sentence)
        tries = 0
        while left > 0 and tries < 200:
            sentence = filler(random)
            if count(sentence) <= left:
                between.append(sentence)
                left -= count(sentence)
            tries += 1
        if left == 0:
            break
        walk = Walk(random, [needle.key, *walk.facts])
    return " ".join(before + [statement] + between + [question]), f" {needle.answer}."


if __name__ == "__main__":
    generator = random_module.Random(1)
    print(" ".join(document(generator, 300, lambda text: len(text.split()))))
