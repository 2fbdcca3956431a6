"""Words that name nobody when they stand alone: a seed that is one of them acts in its own field only (redaction.md §2).

English function words and everyday words, words of the trades that agents work in, colours, months, compass points, the English words that are also names,
and the cities that everybody names.
"""

# Cities that half the world flies to or lives in: an address may name one, but the name alone is nobody's.
_CITIES = str.split(
    """
    albuquerque amsterdam atlanta austin baltimore barcelona beijing berlin birmingham boston bristol brussels chicago cleveland columbus copenhagen
    dallas delhi denver detroit dubai dublin edinburgh frankfurt fresno geneva glasgow hamburg honolulu houston indianapolis istanbul jacksonville
    leeds lisbon liverpool madrid manchester melbourne memphis miami milan milwaukee minneapolis montreal moscow mumbai munich nashville newark oakland
    omaha orlando oslo oxford philadelphia phoenix pittsburgh portland prague raleigh rome sacramento seattle seoul shanghai singapore stockholm sydney
    tampa tokyo toronto tucson tulsa vancouver venice vienna warsaw washington zurich
    """
)
_TWO_WORD_CITIES = frozenset(
    {
        "new york", "new york city", "los angeles", "san francisco", "san diego", "san antonio", "san jose", "las vegas", "fort worth", "st louis",
        "st. louis", "salt lake city", "kansas city", "new orleans", "el paso", "oklahoma city", "hong kong", "mexico city", "sao paulo",
        "rio de janeiro", "buenos aires", "tel aviv", "abu dhabi", "cape town", "long beach", "colorado springs", "virginia beach",
    }
)  # fmt: skip

COMMON_WORDS = (
    _TWO_WORD_CITIES
    | frozenset(_CITIES)
    | frozenset(
        str.split(
            """
        a able about above accept access account accounts across act active actually add added address admin after afternoon again against age agent
        ago agree ahead air airport all allow almost alone along already also always am amber amount an and angel animal another answer any anyone
        anything apart apple application apply approve approved april are area arm army around art as ask at atlas august autumn available avenue away
        baby back bad bag baggage baker bank bar base basic bay be bear beautiful because become bed been before begin behind being believe bell below
        berry best better between big bill billing bird bishop bit black blank bless block blue board body book booking booked born both bottle box boy
        branch brave bread break bridge bright bring brook brown build building business busy but butler buy by cabin call called calm came can cancel
        cancelled cannot car card cards care carter case cash cat cause center central certain certificate certificates chance change changes
        charge charity chase check child choice christian christmas church city class clean clear clerk client close closed club cloud coach coast code
        coffee cold cole college color colour come comfort company complete completed confirm confirmed contact cook cool copy corner cost could count
        country course court cover cream create created credit crew crystal current currently custom customer customers daily daisy dale dark data date
        dawn day days dead dean dear death debit december decide decline deep default delay delayed delivered delivery deny department departure desk
        destiny detail details diamond did different direct direction display do doctor does dog dollar dollars done door double down drew drive driver
        due duke each early earth east easter easy economy ed edge eight either elder eleven else email emerald empty end enough enter entire
        error euro euros eve even evening event ever every everyone everything exact example except exchange express extra eye face fact faith fall
        false family far farmer fast father february fee feel few field fifty file fill final find fine fire first fish fisher five flight flights
        floor flora florence flower fly follow food for force ford forest form forty forward found four fox frank free french fresh friday friend from
        frost full future game garden gardener gate gem general georgia german get gift ginger girl give given glad glass go god gold golden good grace
        grant grass gray great green grey ground group guest guide guy had hair half hall hand happen happy harbor hard harmony has have haven hazel he
        head health hear heart heath heaven help her here hero hi high hill him his hold holiday holly home honey hope horse hotel hour hours
        house how however human hundred hunt hunter i ice id idea if important in inch include income info input inside insurance international invalid
        invoice iris is issue issued it item items its ivory ivy jack jade january jasmine jersey jet job join jordan journey joy judge july june just
        justice keep key kind king kit kitchen knight know known lady lake lamb land lane large last late later law lead leaf learn least leave left less
        let letter level liberty life light like lily limit line link lion list little live local lock london long look lord lost lot lotus love low
        loyal luck lucky lunch madam magnolia main make male man manage manager many march mark market mason master match matter may maybe mean
        medium meet member membership memory mercy merit message method mile miles miller mine minute miss mist model moment monday money month months
        moon moore more morning most mother mount mountain move mr mrs ms much music must my myrtle name names near need never new next nice night nine no
        noble none noon normal north not note nothing notice november now null number october of off offer office ok okay old olive on once one online
        only opal open option or orange order orders origin original other our out outside over own owner page paid pansy paper paris park part
        party pass passenger passengers past path patience pay payment payments peace pearl penny people perfect period person pet phone photo
        piece pierce pike place plain plan plane play please point police pool poppy port post pound pounds power precious present president pretty price
        priest prince problem process product profile promise proof provide providence pure purple put quality queen question quick quiet rain rate
        ray read ready real really reason receive received record red reed reference refund refunded regular rejected remain remove request required
        reservation reservations rest result return returned rich ride right ring rise river road robin rock role roman room root rose round route ruby
        rule run sad safe sage said saint sale salt same sand saturday save say scott sea search seat seats second secret section see self sell send sent
        september serenity service set seven shade shall shepherd ship shipped shipping shop short should show sick side sierra sign silver simple since
        sing single sir sister sit six size skip sky small smart smith smooth snow so social soft sold some son song soon sorry south space special
        spring square stage standard star stark start state states statement status stay stella step stone stop storm story street strong
        student subject such sugar summer sun sunday sunny support sure sweet system table take taylor team tell temple ten term terry test text
        than thank thanks that the their them then there these they thing think third this those three through thursday ticket tiger time times title to
        today together told tom tomorrow too top total town track trade travel traveler tree trip true trust truth try tuesday turn turner twelve twenty two
        type unable under unit united unknown until up update upgrade upon us use used user users valid valley value van very via victor victory view
        violet virginia visa vision visit walk walker wall want ward warm was water way we weaver web wednesday week weeks weight welcome well went were
        west what when where which while white who whole why wife will willow win wind winter wise wish with within without wolf woman wood woods word
        work world worth would write wrong year years yellow yes yesterday yet york you young your zip
        """
        )
    )
)
"""Lower case, all of them."""

CARD_WORDS = (
    "card",
    "visa",
    "mastercard",
    "amex",
    "ending",
    "ends",
    "ended",
    "last four",
    "last 4",
    "four digits",
    "4 digits",
    "****",
    "xxxx",
)
"""Where one of these stands near, four digits are the tail of a card."""
