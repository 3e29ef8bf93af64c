"""Values that requests mention and arguments repeat.

A maker takes a `random.Random` and returns (words of the request, JSON value).
Nearly all values are copied as written, so that copying is what pays.
"""

import string

CITIES = """Paris London Berlin Rome Madrid Vienna Prague Oslo Lisbon Dublin Athens Warsaw Budapest Helsinki Stockholm
Copenhagen Brussels Amsterdam Zurich Geneva Milan Naples Venice Florence Munich Hamburg Cologne Lyon Marseille Nice
Barcelona Valencia Seville Porto Krakow Riga Vilnius Tallinn Sofia Bucharest Belgrade Zagreb Istanbul Ankara Cairo Tunis
Casablanca Lagos Nairobi Accra Dakar Johannesburg Durban Dubai Doha Tehran Baghdad Jerusalem Beirut Mumbai Delhi
Chennai Kolkata Dhaka Karachi Lahore Bangkok Hanoi Manila Jakarta Singapore Seoul Tokyo Osaka Kyoto Beijing Shanghai
Taipei Sydney Melbourne Perth Brisbane Auckland Wellington Toronto Montreal Vancouver Ottawa Boston Chicago Seattle
Denver Dallas Houston Austin Miami Atlanta Portland Phoenix Detroit Philadelphia Washington Havana Lima Bogota Quito
Santiago Caracas Brasilia Montevideo Reykjavik Edinburgh Glasgow Cardiff Leeds Manchester Liverpool Oxford Basel Graz
Turin Bergen Malmo Ghent Antwerp Rotterdam Leipzig Dresden Stuttgart Nantes Toulouse Bordeaux Strasbourg""".split()
LONG_CITIES = ["New York", "San Francisco", "Los Angeles", "Buenos Aires", "Mexico City", "Cape Town", "Hong Kong",
               "Rio de Janeiro", "Salt Lake City", "Tel Aviv", "Kuala Lumpur", "New Delhi", "São Paulo", "Saint Petersburg"]
COUNTRIES = """France Germany Italy Spain Portugal Norway Sweden Poland Greece Turkey Egypt Kenya India China Japan
Canada Brazil Chile Peru Mexico Austria Ireland Finland Denmark Hungary""".split()
PEOPLE = """Anna Bob Carla David Emma Frank Grace Henry Ivan Julia Karl Laura Maria Nina Oscar Paul Rosa Sam Tina Victor
Wendy Alice Ben Clara Daniel Eva Felix Hannah Igor Jack Kate Leo Mia Noah Olga Peter Robert Sara Thomas Uma Vera Walter
Amir Bilal Chen Diego Fatima Giulia Hiro Ingrid Jamal Keiko Luca Mei Nadia Omar Priya Raj Sofia Tariq Yuki Zoe
Martin Simon Lucy George Helen Ruth Erik Lars Marta Pablo""".split()
SURNAMES = """Smith Miller Novak Silva Rossi Weber Larsen Khan Patel Tanaka Wang Kim Garcia Lopez Brown Jones Taylor
Moreau Fischer Keller Olsen Virtanen Kowalski Ivanova Haddad Okafor Mensah Nguyen""".split()
WORDS = """old new red blue green small big fast slow cheap quiet happy bright dark cold warm fresh local public open free
simple modern ancient electric solar wooden garden river mountain ocean forest city house kitchen office market school
train bus car bike boat plane engine battery light paper glass stone metal water coffee tea bread cheese apple lemon
rice fish soup music film book story game paint dance history science nature space energy climate travel money health
sleep food sport team plan report meeting project budget design release test server database network memory error
update backup password user account customer order contract price tax salary law art photo video letter summer winter
morning evening weekend holiday birthday party family friend dog cat bird horse tree flower seed rain snow wind storm
sun moon star island bridge road street wall door window table chair lamp clock phone camera screen keyboard machine
learning language grammar writing reading running swimming cooking cleaning packing planning testing python rust
jazz rock piano guitar opera poem novel comic cartoon theatre dinner lunch breakfast picnic salad pasta steak juice""".split()
LITTLE = "of for in with and about from near without under to on".split()
VERBS = """call buy send water clean pay check visit finish review feed write read pick fix wash pack sign print bring order
book cancel renew charge paint move test ask tell meet""".split()
CURRENCIES = "USD EUR GBP JPY CHF CAD AUD SEK NOK DKK PLN CZK INR CNY BRL MXN ZAR NZD SGD TRY".split()
CURRENCY_WORDS = {"dollars": "USD", "euros": "EUR", "pounds": "GBP", "yen": "JPY", "Swiss francs": "CHF", "rupees": "INR"}
LANGUAGES = """English French German Italian Spanish Portuguese Dutch Swedish Polish Czech Greek Turkish Arabic Hindi
Chinese Japanese Korean Russian Finnish Hungarian Ukrainian Danish Latin""".split()
TITLES = "Mr Mrs Ms Dr Professor Aunt Uncle".split()
PLACES = "Park Museum Square Street Hall Hotel School Lake Club Station Market Corner Bridge Tower Inn Beach House Project".split()
WHICH_ROOM = "upstairs downstairs guest main small back front old second children's".split()
ROOMS = "kitchen|bathroom|bedroom|living room|office|hall|garage|basement|garden|attic|balcony|library|dining room|studio".split("|")
FOODS = "pizza sushi burger salad soup pasta noodles curry tacos sandwich steak rice pancakes burrito kebab".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
EXTENSIONS = "txt md pdf csv json yaml log py cpp h js html png jpg zip toml xml conf sh docx".split()
FOLDERS = """src docs data home tmp var etc logs notes config images reports users build test lib bin share backup
projects archive downloads public assets scripts""".split()
FILES = """notes main readme report index config data todo budget draft plan summary server client setup utils test letter
invoice photo list results input output error access package""".split()
DOMAINS = "example.com mail.com example.org company.io work.net post.eu school.edu inbox.dev".split()
PEOPLE_ABROAD = """Zoë Chloé José André Renée Noémie Jürgen Günther Sönke Björn Håkon Øyvind Åsa Þóra Łukasz Małgorzata Jiří Zdeněk Željko Čedomir
Ünal Çağla Gökçe İnci Şebnem Ştefan Ágnes Tünde László João Conceição Lucía Íñigo Begoña Nguyễn Trần Aïcha Özlem Māra Jānis Kęstutis Mireille Siân
Seán Róisín O'Brien Sørensen Müller García Núñez Dvořák Škoda Kovács Öztürk Lefèvre Błaszczyk""".split()
CITIES_ABROAD = """Zürich Köln München Düsseldorf Nürnberg Málaga Córdoba Cádiz León Łódź Kraków Gdańsk Poznań Wrocław Brno Plzeň České|Budějovice Győr
Pécs Malmö Göteborg Jönköping Århus Ærøskøbing Tromsø Ålesund Bodø Jyväskylä Pärnu Šiauliai Iași Brașov Timișoara Niš Čačak İzmir Eskişehir Muğla
São|Paulo Brasília Maceió Bogotá Medellín Cancún Mérida Valparaíso Asunción Québec Orléans Béziers Saint-Étienne Besançon Évora Setúbal Reykjavík
Ísafjörður Đà|Nẵng Huế A|Coruña Ħamrun L'Aquila""".split()
WORDS_ABROAD = """naïve café crème fiancée façade jalapeño piñata smörgåsbord über fjäll mañana señor déjà-vu entrée soufflé brûlée tiramisù doppelgänger
Straße Käse Brötchen forêt élève crêpe niño peña coração maçã żółw pączki hůlka šálka čaj ağaç köprü tér rødgrød hygge blåbær øl""".split()
SCRIPTS = [(letters, words.split()) for letters, words in (
    ("абвгдежзиклмнопрстуфхцчшщыьэюяїє", "Москва Анна Сергей Київ Олена Пловдив книга молоко Иван спасибо"),
    ("αβγδεζηθικλμνξοπρστυφχψωάέήίόύώ", "Αθήνα Ελένη Νίκος Πάτρα βιβλίο καλημέρα Γιώργος"),
    ("אבגדהוזחטיכלמנסעפצקרשת", "שלום חיפה דוד ספר רחל"), ("ابتثجحخدرزسشصضطعغفقكلمنهوي", "القاهرة ليلى عمر كتاب مرحبا بيروت"),
    ("一二三山川天地人水火木金土日月大小中北京上海花风雨书茶", "北京 上海 小明 你好 王芳 咖啡"), ("あいうえおかきくけこさしすせそたなにのはまみやらりんアイカキトラン", "さくら 東京 ラーメン 花子 ありがとう 京都"),
    ("가나다라마바사아자차하고노도로모보소오조기니리미비시이지", "서울 민수 김치 안녕 부산 지은"), ("🎉🎂🌷🚲☕🐈🍕⭐🔥🎸🏠", "🎉 🎂🎂 ☕ 🐈 🚀"))]  # the last are no names
ACCENTS = {"a": "áàâäãåą", "e": "éèêëęě", "i": "íîïı", "o": "óôöõøő", "u": "úûüů", "c": "çčć", "s": "šşß", "n": "ñń", "l": "ł", "z": "žżź", "r": "ř", "g": "ğ", "y": "ý"}
COUNTED = dict(enumerate("""one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen""".split(), 1))
COUNTED |= {10 * i: tens for i, tens in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
COUNTED |= {tens + i: COUNTED[tens] + "-" + COUNTED[i] for tens in range(20, 100, 10) for i in range(1, 10)}
COUNTED |= {100: "a hundred", 1000: "a thousand"} | {n * i: COUNTED[i] + name for n, name in ((100, " hundred"), (1000, " thousand")) for i in range(2, 10)}
ONSETS = "b c d f g h j k l m n p r s t v w z br cl dr fl gr kr pl pr sk sl st tr th sh ch qu sn sp".split()
VOWELS = "a e i o u a e i o ai ea oo ou ie y".split()
CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "k", "x", "rt", "nd", "ck", "sh", "lt", "mp", "ng"]


def pseudo(r, syllables=None):
    """A word that means nothing, so that it can only be copied."""
    return "".join(r.choice(ONSETS) + r.choice(VOWELS) + r.choice(CODAS)
                   for _ in range(syllables or r.choice((1, 1, 2, 2, 2))))


def abroad(r, words):
    """One of `words`, or letters that English has not, in an order that can only be copied."""
    p = r.random()
    if p < .6:
        return r.choice(words).replace("|", " ")
    if p < .8:
        return "".join(r.choice(ACCENTS[c]) if c in ACCENTS and r.random() < .5 else c for c in pseudo(r, 2)).capitalize()
    letters, known = r.choice(SCRIPTS if words is WORDS_ABROAD else SCRIPTS[:-1])
    return r.choice(known) if p < .88 else "".join(r.choice(letters) for _ in range(r.choice((2, 2, 3, 4, 6))))


def word(r):
    return pseudo(r) if r.random() < .18 else r.choice(WORDS)


def same(text):
    return text, text


def city(r):
    p = r.random()
    if p < .5:
        return same(r.choice(CITIES))
    if p < .59:
        return same(r.choice(LONG_CITIES))
    if p < .66:
        return same("%s, %s" % (r.choice(CITIES), r.choice(COUNTRIES)))
    if p < .77:
        return same(abroad(r, CITIES_ABROAD))
    name = pseudo(r, 2).capitalize()
    return same(name if p < .96 else name + " " + pseudo(r, 2).capitalize())


def person(r):
    p = r.random()
    if p < .53:
        return same(r.choice(PEOPLE))
    if p < .67:
        return same(r.choice(PEOPLE) + " " + r.choice(SURNAMES))
    if p < .74:
        return same(r.choice(TITLES) + " " + r.choice(SURNAMES))
    if p < .82:
        return same(abroad(r, PEOPLE_ABROAD))
    if p < .84:
        return same(r.choice(PEOPLE_ABROAD) + " " + abroad(r, PEOPLE_ABROAD))
    return same(pseudo(r, 2).capitalize())


def email(r):
    user = r.choice((r.choice(PEOPLE).lower(), pseudo(r, 2), r.choice(PEOPLE).lower() + "." + r.choice(SURNAMES).lower()))
    domain = r.choice(DOMAINS) if r.random() < .6 else pseudo(r, 2) + r.choice((".com", ".org", ".net", ".io", ".de"))
    return same(user + (str(r.randrange(100)) if r.random() < .15 else "") + "@" + domain)


def file_name(r):
    stem = r.choice(FILES) if r.random() < .55 else pseudo(r, 2)
    if r.random() < .2:
        stem += r.choice("_-") + r.choice((r.choice(FILES), str(r.randrange(2100))))
    return stem + "." + r.choice(EXTENSIONS)


def folder(r):
    depth = r.choice((1, 1, 2, 2, 3))
    parts = [r.choice(FOLDERS) if r.random() < .7 else pseudo(r, 2) for _ in range(depth)]
    return same(("/" if r.random() < .7 else "") + "/".join(parts))


def path(r):
    p = r.random()
    if p < .35:
        return same(file_name(r))
    return same(folder(r)[0] + "/" + file_name(r))


def url(r):
    domain = r.choice(DOMAINS) if r.random() < .4 else pseudo(r, 2) + r.choice((".com", ".org", ".net", ".io"))
    return same("https://" + domain + ("/" + word(r) if r.random() < .6 else ""))


def small_int(r):
    n = r.choice((r.randrange(1, 13), r.randrange(1, 100), r.randrange(1, 1000)))
    return str(n), n


def digits(r, count):
    """Digits; now and then of two to four kinds, so that the digit before does not tell the place in the number."""
    kinds = r.sample(string.digits, r.choice((2, 2, 3, 4))) if r.random() < .35 else string.digits
    return "".join(r.choice(kinds) for _ in range(count))


def big_int(r):
    n = int(r.choice("123456789") + digits(r, r.randrange(1, 13)))
    return str(n), n


def decimal(r):
    if r.random() < .4:
        n = r.randrange(1, 60) + r.choice((.5, .5, .25, .75, .2, .9))
        if n % 1 == .5 and r.random() < .15:
            return r.choice((COUNTED[int(n)], str(int(n)))) + " and a half", n
        return ("%.2f" % n if r.random() < .3 else str(n)), n
    n = round(r.random() * 10 ** r.choice((1, 2, 3, 4)), r.choice((1, 2, 2)))
    return str(n), n


def number(r):
    p = r.random()
    value = (small_int if p < .4 else big_int if p < .7 else decimal)(r)
    if r.random() < .05:
        return negative(r, counted(r, value[1])[0] if p < .4 else value[0]), -value[1]
    return value


def negative(r, text):
    return ("-" if r.random() < .6 and text[0].isdigit() else "minus ") + text


def counted(r, number):
    """A whole number in digits or words."""
    if number < 0:
        return negative(r, counted(r, -number)[0]), number
    if number in COUNTED and r.random() < (.3 if number <= 20 or number % 10 == 0 else .1):
        return COUNTED[number], number
    if 1000 <= number < 10 ** 7 and number not in range(1900, 2100) and r.random() < .15:
        return "{:,}".format(number).replace(",", r.choice(",, ")), number
    return str(number), number


def amount(r):
    if r.random() < .04:
        n, (name, size) = r.randrange(2, 100), r.choice((("k", 1000), (" thousand", 1000), (" million", 10 ** 6)))
        return "%d%s" % (n, name), n * size
    return counted(r, (small_int, big_int)[r.random() < .33](r)[1]) if r.random() < .75 else decimal(r)


def date(r):
    p = r.random()
    if p < .3:
        return same("%d-%02d-%02d" % (r.randrange(1990, 2035), r.randrange(1, 13), r.randrange(1, 29)))
    if p < .6:
        return same(r.choice(DAYS))
    if p < .75:
        return same(r.choice(("today", "tomorrow", "tonight", "next week", "next " + r.choice(DAYS))))
    return same("%s %d" % (r.choice(MONTHS), r.randrange(1, 29)))


def clock(r):
    p = r.random()
    if p < .6:
        return same("%d:%02d" % (r.randrange(0, 24), r.randrange(0, 60)))
    if p < .8:
        return same("%d %s" % (r.randrange(1, 13), r.choice(("am", "pm"))))
    return same(r.choice(("noon", "midnight", "%02d:%02d" % (r.randrange(0, 24), r.choice((0, 15, 30, 45))))))


def phrase(r):
    """Two to five words: a topic or a title."""
    if r.random() < .1:
        return same(proper(r))
    if r.random() < .05:
        return same(abroad(r, WORDS_ABROAD))
    words = [word(r) for _ in range(r.choice((1, 2, 2, 3, 3, 4)))]
    if len(words) > 1 and r.random() < .35:
        words.insert(r.randrange(1, len(words)), r.choice(LITTLE) if r.random() < .93 else abroad(r, WORDS_ABROAD))
    return same(" ".join(words))


def proper(r):
    """The name of a place, a work or a venture."""
    p = r.random()
    name = abroad(r, WORDS_ABROAD) if p < .09 else (pseudo(r, 2) if p < .53 else word(r)).capitalize()
    p = r.random()
    if p < .5:
        return name + " " + r.choice(PLACES)
    if p < .7:
        return r.choice(PLACES) + " " + name
    return "The %s %s" % (word(r).capitalize(), name) if p < .85 else name


def title(r):
    if r.random() < .25:
        return same(proper(r))
    text = " ".join(abroad(r, WORDS_ABROAD) if r.random() < .03 else word(r) for _ in range(r.choice((1, 2, 2, 3))))
    return same(text.capitalize() if r.random() < .5 else text.title())


def task(r):
    verb, thing = r.choice(VERBS), word(r)
    tail = r.choice(("", "", " with " + r.choice(PEOPLE), " for " + word(r), " and " + r.choice(VERBS) + " " + word(r)))
    return same("%s %s%s%s" % (verb, r.choice(("the ", "", "my ", "some ")), thing, tail))


def sentence(r):
    """A sentence that a message carries."""
    p = r.random()
    if p < .4:
        text = "%s %s" % (r.choice(("Please", "I will", "We can", "Do not", "Can you", "Let us", "You should")), task(r)[0])
    elif p < .7:
        text = "The %s %s %s" % (phrase(r)[0], r.choice(("is", "was", "looks", "needs", "will be")), word(r))
    else:
        text = "%s %s" % (r.choice(("Hello", "Hi", "Dear", "Thanks")), person(r)[0])
        text += ", " + task(r)[0]
    if r.random() < .3:
        text += r.choice((" at ", " before ", " by ")) + clock(r)[0]
    return same(text + (r.choice((".", "", "!", "?", "")) if r.random() < .96 else " " + abroad(r, WORDS_ABROAD)))


def command(r):
    w = lambda: word(r) if r.random() < .5 else file_name(r)
    return same(r.choice((
        lambda: "ls -" + r.choice(("l", "la", "lh", "a", "1")) + " " + folder(r)[0],
        lambda: "cat " + path(r)[0],
        lambda: "grep -%s %s %s" % (r.choice("rnil"), word(r), path(r)[0]),
        lambda: "git " + r.choice(("status", "log -n %d" % r.randrange(1, 20), "diff", "pull", "checkout " + word(r))),
        lambda: "python " + file_name(r),
        lambda: "mkdir " + folder(r)[0],
        lambda: "rm -rf " + folder(r)[0],
        lambda: "echo " + w() + " " + w(),
        lambda: "tail -n %d %s" % (r.randrange(1, 500), path(r)[0]),
        lambda: "cp %s %s" % (w(), folder(r)[0]),
        lambda: r.choice(("pwd", "whoami", "df -h", "uptime", "free -m", "ps aux", "date", "make test", "npm install")),
        lambda: "docker " + r.choice(("ps", "stop ", "logs ")) + pseudo(r),
    ))())


def code(r):
    """An identifier such as A-4471."""
    letters = "".join(r.choice(string.ascii_uppercase) for _ in range(r.choice((1, 2, 3))))
    figures = digits(r, r.choice((1, 1, 2, 2, 3, 3, 4, 5, 6)))
    if r.random() < .08:
        return same(r.choice((letters[0], str(int(figures)))))
    return same(r.choice((letters + "-" + figures, letters + figures, figures + "-" + letters, pseudo(r, 2) + "-" + figures)))


def mark(r):
    """A short label: a row, a seat, a bay, a size."""
    letter, figures = r.choice(string.ascii_uppercase), str(r.randrange(1, 100))
    return same(r.choice((letter, letter + figures, letter + figures, figures, figures + letter, figures + letter.lower(), letter + "-" + figures)))


def phone(r):
    return same("+%d%s" % (r.randrange(1, 99), digits(r, r.choice((8, 9, 10)))))


def currency(r):
    if r.random() < .3:
        return r.choice(list(CURRENCY_WORDS.items()))
    return same(r.choice(CURRENCIES))


def language(r):
    return same(r.choice(LANGUAGES) if r.random() < .85 else pseudo(r, 2).capitalize())


def timezone(r):
    if r.random() < .5:
        return city(r)
    area = r.choice(("Europe", "Asia", "America", "Africa", "Australia"))
    return same(area + "/" + (r.choice(CITIES) if r.random() < .7 else pseudo(r, 2).capitalize()))


def expression(r):
    n = lambda: (small_int(r) if r.random() < .7 else big_int(r))[0]
    op = lambda: r.choice((" + ", " - ", " * ", " / "))
    return same(r.choice((lambda: n() + op() + n(), lambda: n() + op() + n() + op() + n(),
                          lambda: "(" + n() + op() + n() + ")" + op() + n()))())


def flag(r):
    value = r.random() < .5
    return ("true" if value else "false"), value


def room(r):
    name = r.choice(ROOMS) if r.random() < .85 else pseudo(r, 2)
    return same(r.choice(WHICH_ROOM) + " " + name if r.random() < .25 else name)


def food(r):
    name = r.choice(FOODS) if r.random() < .7 else word(r) + " " + r.choice(FOODS)
    return same(name)


def place_name(r):
    if r.random() < .4:
        return same(proper(r))
    return same(r.choice(("", "", "Chez ", "Cafe ", "Bar ", "The ")) + r.choice((pseudo(r, 2), word(r))).capitalize())


def ticker(r):
    return same("".join(r.choice(string.ascii_uppercase) for _ in range(r.choice((2, 3, 4)))) if r.random() < .7
                else pseudo(r, 2).capitalize())


def sql(r):
    table, column = r.choice((word(r), word(r) + "s")), word(r)
    return same(r.choice(("SELECT * FROM %s" % table, "SELECT count(*) FROM %s" % table,
                          "SELECT %s FROM %s LIMIT %d" % (column, table, r.randrange(1, 100)),
                          "SELECT %s FROM %s WHERE id = %d" % (column, table, r.randrange(1, 10000)),
                          "DELETE FROM %s WHERE %s > %d" % (table, column, r.randrange(100)))))


def pycode(r):
    return same(r.choice(("print(%s)" % expression(r)[0], "len('%s')" % word(r), "sum(range(%d))" % r.randrange(3, 999),
                          "print('%s')" % phrase(r)[0], "import %s" % word(r), "%s = %d" % (word(r), r.randrange(999)))))


def one_word(r):
    return same(word(r) if r.random() < .95 else abroad(r, WORDS_ABROAD))


MAKERS = {f.__name__: f for f in (
    city, person, email, path, folder, url, small_int, big_int, decimal, number, amount, date, clock, phrase, title, task,
    sentence, command, code, mark, phone, currency, language, timezone, expression, flag, room, food,
    place_name, ticker, sql, pycode, one_word)}
JSON_TYPES = {"small_int": "integer", "big_int": "integer", "decimal": "number", "number": "number", "amount": "number",
              "flag": "boolean"}
