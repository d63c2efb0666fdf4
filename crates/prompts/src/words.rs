//! The words that prompts are made of.
//!
//! Common short English words: with a space before them nearly every tokenizer has one token for each.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::seed::Which;

/// A prompt of exactly so many words.
#[must_use]
pub fn of_words(which: Which, words: u32) -> String {
    synthetic(&mut which.generator(), words)
}

/// A text of exactly so many words, drawn at random.
#[must_use]
pub fn synthetic(generator: &mut StdRng, words: u32) -> String {
    let mut text = String::with_capacity(words as usize * 6);
    for at in 0..words {
        if at > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[generator.random_range(0..WORDS.len())]);
    }
    text
}

/// All different, lower case, ASCII letters only.
#[rustfmt::skip]
pub const WORDS: [&str; 768] = [
    "the", "of", "and", "to", "in", "is", "it", "you", "that", "he", "was", "for", "on", "are", "with",
    "as", "his", "they", "at", "be", "this", "have", "from", "or", "one", "had", "by", "word", "but", "not",
    "what", "all", "were", "we", "when", "your", "can", "said", "there", "use", "an", "each", "which",
    "she", "do", "how", "their", "if", "will", "up", "other", "about", "out", "many", "then", "them",
    "these", "so", "some", "her", "would", "make", "like", "him", "into", "time", "has", "look", "two",
    "more", "write", "go", "see", "number", "no", "way", "could", "people", "my", "than", "first", "water",
    "been", "call", "who", "oil", "its", "now", "find", "long", "down", "day", "did", "get", "come", "made",
    "may", "part", "over", "new", "sound", "take", "only", "little", "work", "know", "place", "year",
    "live", "me", "back", "give", "most", "very", "after", "thing", "our", "just", "name", "good",
    "sentence", "man", "think", "say", "great", "where", "help", "through", "much", "before", "line",
    "right", "too", "mean", "old", "any", "same", "tell", "boy", "follow", "came", "want", "show", "also",
    "around", "form", "three", "small", "set", "put", "end", "does", "another", "well", "large", "must",
    "big", "even", "such", "because", "turn", "here", "why", "ask", "went", "men", "read", "need", "land",
    "home", "us", "move", "try", "kind", "hand", "picture", "again", "change", "off", "play", "spell",
    "air", "away", "animal", "house", "point", "page", "letter", "mother", "answer", "found", "study",
    "still", "learn", "should", "world", "high", "every", "near", "add", "food", "between", "own", "below",
    "country", "plant", "last", "school", "father", "keep", "tree", "never", "start", "city", "earth",
    "eye", "light", "thought", "head", "under", "story", "saw", "left", "few", "while", "along", "might",
    "close", "seem", "next", "hard", "open", "example", "begin", "life", "always", "those", "both", "paper",
    "together", "got", "group", "often", "run", "until", "children", "side", "feet", "car", "mile", "night",
    "walk", "white", "sea", "began", "grow", "took", "river", "four", "carry", "state", "once", "book",
    "hear", "stop", "without", "second", "later", "miss", "idea", "enough", "eat", "face", "watch", "far",
    "really", "almost", "let", "above", "girl", "mountain", "cut", "young", "talk", "soon", "list", "song",
    "being", "leave", "family", "music", "color", "body", "dog", "bird", "problem", "room", "sure", "knew",
    "since", "ever", "piece", "told", "usually", "friend", "easy", "heard", "order", "red", "door",
    "become", "top", "ship", "across", "today", "during", "short", "better", "best", "however", "low",
    "hour", "black", "product", "happen", "whole", "measure", "remember", "early", "wave", "reach", "wind",
    "rock", "space", "cover", "fast", "several", "hold", "himself", "toward", "five", "step", "morning",
    "pass", "true", "hundred", "against", "pattern", "table", "north", "slow", "money", "map", "farm",
    "pull", "draw", "voice", "power", "town", "fine", "drive", "lead", "cry", "dark", "machine", "note",
    "wait", "plan", "figure", "star", "box", "noun", "field", "rest", "able", "pound", "done", "beauty",
    "stood", "contain", "front", "teach", "week", "final", "gave", "green", "quick", "develop", "ocean",
    "warm", "free", "minute", "strong", "special", "mind", "behind", "clear", "tail", "produce", "fact",
    "street", "inch", "nothing", "course", "stay", "wheel", "full", "force", "blue", "object", "decide",
    "surface", "deep", "moon", "island", "foot", "system", "busy", "test", "record", "boat", "common",
    "gold", "possible", "plane", "age", "dry", "wonder", "laugh", "thousand", "ago", "ran", "check", "game",
    "shape", "yes", "hot", "brought", "heat", "snow", "bring", "fill", "east", "paint", "language", "among",
    "grand", "ball", "yet", "drop", "heart", "present", "heavy", "dance", "engine", "position", "arm",
    "wide", "sail", "material", "size", "vary", "settle", "speak", "weight", "general", "ice", "matter",
    "circle", "pair", "include", "divide", "felt", "perhaps", "pick", "sudden", "count", "square", "reason",
    "length", "art", "subject", "region", "energy", "hunt", "bed", "brother", "egg", "ride", "cell",
    "believe", "fraction", "forest", "sit", "race", "window", "store", "summer", "train", "sleep", "prove",
    "lone", "leg", "exercise", "wall", "catch", "mount", "wish", "sky", "board", "joy", "winter", "sat",
    "written", "wild", "kept", "glass", "grass", "cow", "job", "edge", "sign", "visit", "past", "soft",
    "fun", "bright", "gas", "weather", "month", "million", "bear", "finish", "happy", "hope", "flower",
    "clothes", "strange", "gone", "jump", "baby", "eight", "village", "meet", "root", "buy", "raise",
    "solve", "metal", "whether", "push", "seven", "third", "hair", "cook", "floor", "either", "result",
    "burn", "hill", "safe", "cat", "century", "consider", "type", "law", "bit", "coast", "copy", "phrase",
    "silent", "tall", "sand", "soil", "roll", "finger", "industry", "value", "fight", "lie", "beat",
    "natural", "view", "sense", "ear", "else", "quite", "broke", "case", "middle", "kill", "son", "lake",
    "moment", "scale", "loud", "spring", "observe", "child", "straight", "nation", "milk", "speed",
    "method", "pay", "section", "dress", "cloud", "surprise", "quiet", "stone", "tiny", "climb", "cool",
    "design", "poor", "lot", "bottom", "key", "iron", "single", "stick", "flat", "twenty", "skin", "smile",
    "hole", "trade", "trip", "office", "receive", "row", "mouth", "exact", "symbol", "die", "least",
    "trouble", "except", "wrote", "seed", "tone", "join", "suggest", "clean", "break", "lady", "yard",
    "rise", "bad", "blow", "touch", "grew", "cent", "mix", "team", "wire", "cost", "lost", "brown", "wear",
    "garden", "equal", "sent", "choose", "fell", "fit", "flow", "fair", "bank", "collect", "save",
    "control", "gentle", "woman", "captain", "practice", "separate", "doctor", "please", "protect", "whose",
    "ring", "insect", "caught", "period", "radio", "spoke", "atom", "human", "history", "effect",
    "electric", "expect", "crop", "modern", "element", "hit", "student", "corner", "party", "supply",
    "bone", "rail", "imagine", "provide", "agree", "capital", "chair", "danger", "fruit", "rich", "thick",
    "process", "operate", "guess", "sharp", "wing", "create", "wash", "crowd", "corn", "compare", "string",
    "bell", "depend", "meat", "tube", "famous", "dollar", "stream", "fear", "sight", "thin", "triangle",
    "planet", "hurry", "chief", "colony", "clock", "mine", "tie", "enter", "major", "fresh", "search",
    "send", "yellow", "gun", "allow", "print", "dead", "spot", "desert", "suit", "current", "lift", "rose",
    "continue", "block", "chart", "hat", "sell", "success", "company", "event", "deal", "swim",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn words_are_different_and_need_no_escaping() {
        assert_eq!(WORDS.iter().collect::<HashSet<_>>().len(), WORDS.len());
        assert!(
            WORDS
                .iter()
                .all(|word| word.bytes().all(|b| b.is_ascii_lowercase()))
        );
    }
}
