"""Invented names of sides and cricketers, and the rule that a name must obey."""

from __future__ import annotations

import random
import unicodedata

# Made up for this world. Given names are common in cricketing countries; surnames are inventions.
GIVEN = (
    "Aarav Adil Akeem Alder Amari Anders Anil Arlo Arno Ashan Bashir Beau Bevan Bram Caleb Callum "
    "Chamo Corin Dario Darsh Declan Deven Dilan Eamon Edrik Elias Emre Ewan Faisal Farid Finlay "
    "Gareth Gavan Hamish Haris Hendrik Ilyas Imre Isuru Ivo Jai Jamal Jarek Jomar Junaid Kasun Keiran "
    "Kemar Kiran Kofi Kyan Lahiru Leandro Levi Lorcan Lungi Mahir Malik Marlo Mehran Milo Mohan Nadir "
    "Nalin Neil Nikhil Niro Odean Omar Orin Osman Pavan Pieter Praveen Qasim Rafe Rahil Ravin Rohan "
    "Romel Ruan Sabir Sajid Samar Sefu Shane Sorin Tariq Tavin Teo Thabo Toby Udara Umar Vikram Wes "
    "Yasir Zane"
).split()
SURNAMES = (
    "Abrewin Akinvale Amberlok Antharo Arkwell Ashgrove Badrikar Balasund Banfathe Barravel Bexhorn "
    "Birkano Bolavi Bramholt Brindavar Calloran Cansworth Cheddavi Colvane Corranth Dalmeera Danforro "
    "Dastaran Delvorne Dhanukar Dravenport Dunmarro Eastlane Eboraka Elmorin Fairlaw Farrokand "
    "Fennimoor Galladine Ganderby Gharavel Glenarro Gorasand Gunavel Hallbrack Harsanke Hathorne "
    "Hawkridan Hetmarsh Hollinar Idrovane Inglemar Irfanel Jalvani Jarrowby Jeyasund Jolimant "
    "Kalendar Kandoor Karavast Kelbrook Khanderi Kilmaran Kolawen Kotharel Kumbara Lakshmere Langarro "
    "Lathamby Lokuvane Lowendel Madurage Mahoveni Malvarin Mandlane Marchwell Mbekana Merrowin "
    "Mirzavel Montarro Mosandra Munsarin Nallavar Nandrake Narrowby Ndlorane Northall Nuwanda "
    "Oakhanger Olderane Orrisande Padmaral Pallister-Vane Parthane Pendarro Perivale Pradomar Quennor "
    "Radstone Rahmavel Ranavoor Rathmore Renshawe-Ito Rosandel Rukhsaran Sabharo Samarvel Sandilore "
    "Selvarane Senanday Shahrokan Siddavar Silverane Sohalen Stannadge Sundermark Tamberlane Tandokar "
    "Tarrowin Tennavor Thandari Thornabee Tirumal Torrindon Tulsivan Underlow Upallane Vandermeel "
    "Varghane Vasterling Velanday Verrinder Wakeling-Roo Wanigara Warrowell Westerbrand Wickramal "
    "Windarra Yarravel Yusufane Zamborin Zulkarin O'Darrow O'Kellan"
).split()
TEAMS = (
    "Amber Coast", "Banyan City", "Blackwater", "Capeford", "Coral Bay", "Deccan Vale", "Eastharbour",
    "Fernhill", "Granite Plains", "Harmattan", "Ironbark", "Jacaranda", "Kestrel Point", "Lakeshire",
    "Lantern Isles", "Marigold Town", "Monsoon Port", "Northmoor", "Palmyra Beach", "Red River",
    "Saltmarsh", "Silver Delta", "Tamarind", "Westering",
)  # fmt: skip

MAX_LENGTH = 40
_MARKS = frozenset(" '-.’")


def name_fault(text: object) -> str | None:
    """Say what is wrong with a name, or ``None`` when nothing is.

    A name is 2 to 40 characters of letters in any script, single spaces, apostrophes, hyphens and full stops;
    it starts with a letter and holds no control, format or direction marks, so that it can be printed and
    spoken anywhere.

    >>> name_fault("Ben O'Darrow"), name_fault("<script>")
    (None, 'must start with a letter')
    """
    if not isinstance(text, str):
        return "must be text"
    if not 2 <= len(text) <= MAX_LENGTH:
        return f"must be 2 to {MAX_LENGTH} characters long"
    if unicodedata.normalize("NFC", text) != text:
        return "must be in Unicode normal form C"
    if not text[0].isalpha():
        return "must start with a letter"
    if text[-1] in " '-’" or "  " in text:
        return "must not end in a mark or hold two spaces in a row"
    wrong = next((mark for mark in text if not (mark.isalpha() or mark in _MARKS or _is_accent(mark))), None)
    return None if wrong is None else f"must not hold the character U+{ord(wrong):04X}"


def draw_people(rng: random.Random, count: int) -> tuple[str, ...]:
    """Draw full names without a repeated surname, so that a scorecard is never ambiguous."""
    surnames = rng.sample(SURNAMES, count)
    return tuple(f"{rng.choice(GIVEN)} {surname}" for surname in surnames)


def _is_accent(mark: str) -> bool:
    return unicodedata.category(mark) in ("Mn", "Mc")
