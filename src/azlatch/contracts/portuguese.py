"""Portuguese: reasons, notes and labels, beside the texts of the table."""

from __future__ import annotations

from azlatch.contracts.texts_portuguese import TEXTS
from azlatch.contracts.words import Words

_REASONS = {
    "done": "Foi feito; enviado outra vez, seria feito outra vez.",
    "root": "Falharia outra vez, até se tratar da operação que é a causa.",
    "not_processed": "Foi recusado antes de ser executado.",
    "refused_503": "O serviço responde 503 sobre o que não processou.",
    "same_answer": "O mesmo pedido recebe a mesma resposta.",
    "ends_by_itself": "Foi recusado antes de ser executado; o que o bloqueia acaba por si.",
    "credentials": "O mesmo pedido recebe a mesma resposta até mudarem os direitos ou a credencial.",
    "topology": "Foi recusado antes de ser executado; tem de ir para uma região que o aceite.",
    "caches": "Aquilo em que o pedido se baseia pertence a um contêiner que já não existe.",
    "exists": "Voltaria a encontrar o mesmo item.",
    "reread": "A versão indicada já não volta; só uma proposta nova sobre a versão nova pode ter êxito.",
    "not_in_table": "Ninguém o pode dizer antes de se saber o que a resposta significa.",
    "retriable_writes": "Decide o que está guardado: uma tentativa anterior pode ter sido aplicada.",
    "unknown_any": "Uma leitura pode repetir-se. Uma escrita pode ter sido aplicada: leia primeiro.",
    "unknown_read": "Uma leitura não muda nada: pode repetir-se.",
    "unknown_create": (
        "Se a criação foi aplicada, a segunda recebe 409 por causa do seu próprio item: não faz mal, mas "
        "então o 409 não significa que outra pessoa foi mais rápida. Um id de operação no item distingue os "
        "dois casos."
    ),
    "unknown_replace": (
        "Com If-Match, uma segunda substituição é inofensiva e recebe 412 por causa da sua própria primeira. "
        "Sem condição, apaga em silêncio o que outros escreveram entretanto. Um id de operação no item "
        "distingue as escritas próprias das alheias."
    ),
    "unknown_upsert": (
        "Um segundo upsert apaga em silêncio o que outros escreveram entretanto, e o If-Match não o impede de "
        "criar um item em falta. Leia primeiro; um id de operação no item distingue as escritas próprias das "
        "alheias."
    ),
    "unknown_patch": (
        "Um patch que acrescenta (incr, ou juntar a uma lista) seria aplicado duas vezes; um que só define "
        "valores não o mostraria. Leia primeiro e compare um id de operação no item."
    ),
    "unknown_delete": (
        "Se o item já foi apagado, o segundo pedido recebe 404, ou apaga o que alguém criou entretanto com o "
        "mesmo id. Dê-lhe o ETag, e considere o 404 como feito."
    ),
    "unknown_batch": (
        "Um lote é aplicado por inteiro ou não é aplicado: leia um item que ele escreve. Se está como o lote "
        "o deixa, foi tudo aplicado; se está como antes, o lote pode ser enviado de novo."
    ),
    "without_substatus": "Depende do subestado, que aqui não se conhece.",
}
_NOTES = {
    "no_substatus": (
        "Não foi indicado o subestado; supõe-se {status}/0. O estado também pode significar: {others}."
    ),
    "unknown_substatus": "{status}/{substatus} não está na tabela: isto é o que se sabe de {status} em geral.",
    "client_made": "Um subestado a partir de 10000 é criado por um cliente, não pelo serviço.",
    "substatus_alone": "{substatus} é um subestado e nada significa sem o estado; pode ser: {others}.",
    "substatus_only_one": "{substatus} é um subestado; só se conhece um estado com ele, {code}.",
    "batch_root": (
        "A operação {index} do lote, a contar de 0, é a causa. Outras {count} respondem 424 por causa dela, e "
        "nada do lote foi aplicado."
    ),
    "batch_without_root": "Na lista não há nenhuma operação que seja a causa: não está completa.",
    "batch_size": "O lote tem {count} operações.",
    "own_create": (
        "Pode ser o seu próprio item: o SDK para Python repete uma escrita depois de um 503, e o cliente "
        "asyncio depois de perder a ligação."
    ),
    "own_write": (
        "O outro autor pode ser o seu próprio programa: o cliente asyncio repete uma escrita condicional "
        "depois de perder a ligação, e a segunda encontra então a primeira. Um id de operação no item "
        "esclarece."
    ),
    "own_delete": "Depois de um pedido de apagar cuja resposta se perdeu, é isto que diz que foi aplicado.",
    "tokens_dropped": (
        "O SDK para Python lança para isto a mesma classe que para um item ausente, e esquece todos os tokens "
        "de sessão do contêiner: as leituras seguintes já não pedem sessão."
    ),
    "sdk_waited": "Antes desta resposta, o SDK já tinha sido travado {count} vezes e tinha esperado.",
    "by_wording": "Reconhecido apenas pelas palavras da mensagem; os números não estavam lá.",
    "unknown_operation": "A operação indicada não é nenhuma das conhecidas; não foi tida em conta.",
}
_LABELS = {
    "kind": "tipo",
    "cause": "causa",
    "who": "a quem cabe",
    "retry": "enviar de novo",
    "next": "a fazer",
    "note": "nota",
    "source": "fonte",
    "activity": "id de atividade",
    "operation": "operação",
    "true": "sim",
    "false": "não",
    "none": "depende",
    "after": "após {seconds} s",
    "no_answer": "sem resposta",
}
_WHO = {
    "caller": "a quem escreve ou executa o programa que faz o pedido",
    "data-model": "a quem desenha os dados: chave de partição, itens",
    "capacity": "a quem fornece a taxa de transferência",
    "operations": "a quem cuida da conta, da rede e das identidades",
    "service": "ao serviço; espere, e pergunte ao suporte dele se durar",
    "nobody": "a ninguém",
    "unknown": "não se sabe",
}

WORDS = Words(TEXTS, _REASONS, _NOTES, _LABELS, _WHO)
